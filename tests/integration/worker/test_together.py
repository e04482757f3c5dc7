"""Several internal actions in one transaction: each happens once, and fails alone."""

import threading

import pytest
from psycopg.types.json import Jsonb

from services.worker.dispatch import Dispatcher
from shared.db.connection import connect
from shared.lifecycle import wait_until
from shared.messaging.postgres_transport import PostgresConsumer
from shared.queries.notifications import listen_for_work
from tests.integration.worker.runs import api_call, notify

UPDATE = {"type": "update_record", "target": "$row", "data": {"title": "mended"}}


@pytest.fixture
def far_bench(make_bench, proxy):
    """A worker whose every answer can be lost."""
    return make_bench(url=proxy.url)


def together(bench):
    """Claim all that is due and execute it together; return what is left, to be executed alone."""
    return bench.executor.execute_together(bench.claim())


def alone(bench, left):
    for held in left:
        bench.executor.execute(held)
    bench.flush()


def transactions(conn):
    """In how many transactions the messages were written."""
    return conn.execute("SELECT count(DISTINCT xmin::text) FROM chat_message").fetchone()[0]


def states(bench, ids):
    return [(bench.run(id)["status"], bench.run(id)["attempts"]) for id in ids]


def test_several_have_their_effects_and_receipts_in_one_transaction(bench, conn, nothing_broken):
    ids = [bench.insert(notify(f"{number}")) for number in range(3)]
    action_id = bench.wait(notify("later"))

    assert together(bench) == []

    assert states(bench, ids) == [("done", 1)] * 3
    assert bench.action(action_id)["status"] == "done"
    assert sorted(bench.messages()) == ["0", "1", "2", "later"]
    assert transactions(conn) == 1
    assert bench.holdings.all() == []


@pytest.mark.parametrize("receipts", [[5], [{}], ["x"]], ids=str)
def test_what_has_receipts_that_cannot_be_read_ends_alone(bench, receipts):
    spoiled = bench.wait(notify("never"), action_results=Jsonb(receipts))
    run = bench.insert(notify("never"), action_results=Jsonb(receipts))
    sound = bench.wait(notify("sound"))
    claimed = bench.claim()

    joining = [held for held in claimed if bench.executor.joins(held)]
    left = bench.executor.execute_together(claimed)
    alone(bench, left)

    assert [held.work.id for held in joining] == [sound]
    assert bench.action(spoiled)["status"] == bench.run(run)["status"] == "failed"
    assert bench.messages() == ["sound"]
    assert bench.holdings.all() == []


def test_what_is_external_or_has_more_to_do_is_left_alone(bench, receiver):
    bench.insert(notify("one"))
    sent, longer = bench.insert(api_call(receiver.url)), bench.insert(notify("a"), notify("b"))

    left = together(bench)

    assert {held.work.id for held in left} == {sent, longer}
    assert (bench.messages(), receiver.requests) == (["one"], [])


def test_a_failure_of_one_undoes_all_and_concerns_no_other(bench, conn, nothing_broken):
    ids = [bench.insert(notify("one")), bench.insert(UPDATE), bench.insert(notify("two"))]
    conn.execute(
        "UPDATE record SET deleted_at = updated_at WHERE id = %s", [bench.run(ids[1])["record_id"]]
    )

    left = together(bench)

    assert bench.messages() == []
    assert {held.work.id for held in left} == set(ids)
    alone(bench, left)
    assert states(bench, ids) == [("done", 1), ("failed", 1), ("done", 1)]
    assert sorted(bench.messages()) == ["one", "two"]


def test_after_a_failure_each_has_a_transaction_of_its_own_for_a_while(bench, conn):
    failing = bench.insert(UPDATE)
    conn.execute("UPDATE record SET deleted_at = updated_at")
    alone(bench, together(bench))
    bench.insert(notify("one"))
    bench.insert(notify("two"))

    left = together(bench)

    assert bench.run(failing)["status"] == "failed"
    assert len(left) == 2
    assert bench.messages() == []


def test_one_that_was_taken_over_is_not_executed_and_harms_no_other(bench, conn):
    ids = [bench.insert(notify(f"{number}")) for number in range(3)]
    held = bench.claim()
    conn.execute("UPDATE trigger_run SET lease_token = gen_random_uuid() WHERE id = %s", [ids[1]])

    left = bench.executor.execute_together(held)

    assert (len(left), bench.messages()) == (3, [])
    alone(bench, left)
    assert sorted(bench.messages()) == ["0", "2"]
    assert states(bench, ids) == [("done", 1), ("running", 1), ("done", 1)]


@pytest.mark.parametrize(
    ("asked", "state"), [(b"SET status = ", ("pending", 1)), (b"COMMIT", ("done", 1))]
)
def test_an_answer_that_is_lost_doubles_nothing(far_bench, proxy, asked, state):
    ids = [far_bench.insert(notify(f"{number}")) for number in range(3)]
    held = far_bench.claim()

    lost = proxy.lose_answer_to(asked)
    assert far_bench.executor.execute_together(held) == []
    assert lost.wait(30)
    far_bench.flush()
    between = states(far_bench, ids)
    for id in ids:
        far_bench.again(id)
    far_bench.execute()

    assert between == [state] * 3
    assert {status for status, _ in states(far_bench, ids)} == {"done"}
    assert sorted(far_bench.messages()) == ["0", "1", "2"]


def test_a_stop_lets_none_begin(bench):
    for _ in range(2):
        bench.insert(notify())
    bench.may_begin = lambda: False

    assert len(together(bench)) == 2
    assert bench.messages() == []


@pytest.fixture
def dispatcher_of(bench, database_url):
    """A maker of a dispatcher that notes the sizes of what it executes together."""
    made = []

    def open_session():
        session = connect(database_url, application_name="listener")
        listen_for_work(session)
        return session

    def make(execute_together):
        dispatcher = Dispatcher(
            consumer=PostgresConsumer(open_session, claimer=bench.claimer),
            execute=bench.executor.execute,
            holdings=bench.holdings,
            committer=bench.committer,
            threads=4,
            may_begin=lambda: True,
            joins=bench.executor.joins,
            execute_together=execute_together,
        )
        made.append(dispatcher)
        dispatcher.start()
        return dispatcher

    yield make
    for dispatcher in made:
        dispatcher.drain(seconds=30)


def test_the_dispatcher_lets_begin_together_what_joins(bench, dispatcher_of):
    for number in range(3):
        bench.wait(notify(f"{number}"))
    bench.insert(notify("of a definition that was not read yet"))
    groups = []

    def execute_together(group):
        groups.append(len(group))
        return bench.executor.execute_together(group)

    dispatcher_of(execute_together)

    assert wait_until(lambda: len(bench.messages()) == 4, seconds=30)
    assert groups == [3]


def test_what_is_left_of_a_group_is_executed_alone(bench, dispatcher_of):
    ids = [bench.wait(notify(f"{number}")) for number in range(3)]

    dispatcher = dispatcher_of(lambda group: group)

    assert wait_until(lambda: len(bench.messages()) == 3, seconds=30)
    assert dispatcher.drain(seconds=30)
    assert [bench.action(id)["status"] for id in ids] == ["done"] * 3


def test_what_is_left_of_a_group_when_the_drain_begins_is_handed_back(bench, dispatcher_of):
    ids = [bench.wait(notify(f"{number}")) for number in range(3)]
    began, go_on = threading.Event(), threading.Event()

    def execute_together(group):
        began.set()
        go_on.wait(30)
        return group

    dispatcher = dispatcher_of(execute_together)
    assert began.wait(30)
    assert not dispatcher.drain(seconds=0)
    go_on.set()

    assert wait_until(
        lambda: [bench.action(id)["status"] for id in ids] == ["pending"] * 3, seconds=30
    )
    assert [bench.action(id)["attempts"] for id in ids] == [0, 0, 0]
    assert bench.messages() == []
