"""What property tests draw from."""

from hypothesis import strategies as st

_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)
"""Any value that a client can send."""
