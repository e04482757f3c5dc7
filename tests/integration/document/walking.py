"""A walk through the API: what one answer names, a later request uses."""

import json
from dataclasses import dataclass, field
from urllib.parse import urlencode
from uuid import uuid4

from tests.integration.document.making import CHATROOM, SECRET, Maker

_STRANGE = {"integer": [1, 2**63 - 1], "string": [CHATROOM, "x" * 32]}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Something that an answer named: the ids that lead to it, and what was told of it."""

    ids: dict[str, object]
    told: dict[str, object]


class Found:
    """What a walk has come upon so far, by the names of ids in addresses.

    What a channel has is kept apart: its callers would meet little else than refusals.
    """

    def __init__(self, chance):
        self._chance = chance
        self._places = {}
        self.scope = "tenant"
        self.remembered = {}
        for scope in ("tenant", "channel"):
            self._of(scope, "chatroom_id").append(Place(ids={"chatroom_id": CHATROOM}, told={}))
            self._of(scope, "secret_name").append(Place(ids={"secret_name": SECRET}, told={}))

    def enter(self, scope, *, astray):
        """Go on in a scope; ``astray``: now and then one looks for what the other has."""
        is_channel = (scope == "channel") == (not astray or self._chance.random() < 0.97)
        self.scope = "channel" if is_channel else "tenant"

    def add(self, name, ids, told):
        places = self._of(self.scope, name)
        if not any(place.ids == ids for place in places):
            places.append(Place(ids=ids, told=told))

    def lost(self, name, ids):
        """Keep some of what was deleted: it is asked for too, and taken back."""
        places = self._of(self.scope, name)
        if self._chance.random() < 0.6 and len(places) > 1:
            places[:] = [one for one in places if one.ids != ids]

    def place(self, name, *, last=False):
        places = self._of(self.scope, name)
        if last:
            return places[-1] if places else None
        # The first, which have seen much, and the latest.
        return self._chance.choice(places[:3] + places[-3:]) if places else None

    def _of(self, scope, name):
        return self._places.setdefault((scope, name), [])

    def some(self, name):
        place = self.place(name)
        return None if place is None else place.ids[name]

    def name_of(self, name):
        place = self.place(name)
        return None if place is None else place.told.get("name")


@dataclass(kw_only=True)
class Walk:
    """One walk by chance: the same seed takes the same steps.

    ``callers``: who speaks to a scope, the first one nearly always. ``story``: what was asked and
    answered. ``reached``: the operations that were answered well.
    """

    document: object
    chance: object
    callers: dict[str, list]
    tenant_id: str
    story: list = field(default_factory=list)
    reached: set = field(default_factory=set)

    def __post_init__(self):
        self.found = Found(self.chance)
        self._maker = Maker(self.document, self.chance, self.found)
        self._tags, self._keys, self._cursors = {}, [], {}
        self._is_errand = False

    def step(self, operation, over=None):
        """Ask once; return what the document does not say of the answer, None if it says all.

        On an errand (``over``: what its body has in any case) it is asked for what came up last, by
        somebody who may.
        """
        self._is_errand = over is not None
        self.found.enter(operation.scope, astray=not self._is_errand)
        ids = self._ids(operation)
        if ids is None:
            return None
        path = operation.path
        for name, value in ids.items():
            path = path.replace("{" + name + "}", str(value))
        who = self._who(operation)
        query = self._query(operation, path, who)
        media, body = self._maker.body(operation, over)
        address = f"{path}?{urlencode(query)}" if query else path
        answer = who.request(
            operation.method,
            address,
            data=body,
            content_type=media,
            headers=self._headers(operation, path),
        )
        text = answer.get_data(as_text=True)
        self.story.append(
            f"{operation.method} {address} {(body or b'').decode()}\n"
            f"    {answer.status_code} {text[:500]}"
        )
        if answer.status_code < 400:
            self._remember(operation, body, answer)
            self._learn(operation, path, ids, answer)
        return self.document.faults(operation, answer)

    def _ids(self, operation):
        """Return ids for an address, mostly of something that is there; None when nothing is."""
        if not operation.ids:
            return {}
        place = self.found.place(operation.ids[-1], last=self._is_errand)
        if place is None:
            return None
        ids = {name: place.ids.get(name) for name in operation.ids}
        if None in ids.values():
            return None
        if self.chance.random() < 0.05 and not self._is_errand:
            name = self.chance.choice([*ids])
            [schema] = [p["schema"] for p in operation.parameters("path") if p["name"] == name]
            ids[name] = self.chance.choice(_STRANGE[schema["type"]])
        return ids

    def _who(self, operation):
        first, *others = self.callers[operation.scope]
        is_other = others and not self._is_errand and self.chance.random() < 0.06
        return self.chance.choice(others) if is_other else first

    def _query(self, operation, path, who):
        query = {} if self._is_errand else self._maker.query(operation)
        if path in self._cursors and not self._is_errand and self.chance.random() < 0.5:
            query = self._cursors[path]
        takes = any(one["name"] == "tenant" for one in operation.parameters("query"))
        if takes and "X-ADMIN-TOKEN" in who.headers and self.chance.random() < 0.95:
            query = {**query, "tenant": self.tenant_id}
        return query

    def _headers(self, operation, path):
        headers = {}
        names = {one["name"] for one in operation.parameters("header")}
        if "If-Match" in names and not self._is_errand and self.chance.random() < 0.3:
            headers["If-Match"] = self._tags.get(path, '"1"')
        if "Idempotency-Key" in names and not self._is_errand and self.chance.random() < 0.3:
            self._keys.append(uuid4().hex)
            headers["Idempotency-Key"] = self.chance.choice(self._keys[-3:])
        return headers

    def _remember(self, operation, body, answer):
        """Keep what was exported and what was planned: whole documents, which have no ids."""
        if operation.name == "bundle.export":
            self.found.remembered[operation.scope, "exported"] = answer.data
        if operation.name == "bundle.plan":
            planned = body, json.loads(answer.data)["fingerprint"]
            self.found.remembered[operation.scope, "planned"] = planned

    def _learn(self, operation, path, ids, answer):
        """Keep what a good answer told."""
        self.reached.add(operation.id)
        if "ETag" in answer.headers:
            self._tags[path] = answer.headers["ETag"]
        if operation.method == "DELETE" and not self._is_errand:
            self.found.lost(operation.ids[-1], ids)
        is_json = answer.data and answer.mimetype == "application/json"
        document = json.loads(answer.data) if is_json else {}
        if document.get("next_cursor"):
            self._cursors[path] = {"cursor": document["next_cursor"]}
        for action_id in document.get("scheduled_action_ids", ()):
            self.found.add("action_id", {"action_id": action_id}, {})
        child = self.document.child_of(operation.path)
        # Tokens that were not made on the way are those of the callers.
        if child is not None and (child != "token_id" or answer.status_code == 201):
            self._learn_ids(child, ids, document)

    def _learn_ids(self, child, ids, document):
        """Keep the ids that are appended to an address, and what else leads on from there."""
        for told in _named(document):
            self.found.add(child, {**ids, child: told["id"]}, told)
            if "version" in told:
                version = {**ids, child: told["id"], "version": told["version"]}
                self.found.add("version", version, told)
            if child == "link_id":
                self.found.add("token", {"token": told["token"]}, told)


def _named(document):
    """Return what has an id of its own in an answer, itself or what it lists; the newest last."""
    named = [document, *document.get("items", ()), *document.get("triggers", ())]
    named = [one for one in named if isinstance(one, dict) and "id" in one]
    return sorted(named, key=lambda one: one["id"] if isinstance(one["id"], int) else 0)
