"""Why a test or a client gets nothing: facts of a running cluster, and sentences that follow from them.

`facts.py` reads a cluster into a JSON document, which is bounded, and merges the documents of several processes.
`known.py` is how rules look at such a document. `conclusions.py` asks all rules, and puts the sentences in order. A
rule is a plain function from facts to conclusions, which reads nothing but the facts::

    def reads_from_the_end(facts: Facts) -> Iterator[Conclusion]:
        for position in facts.positions:
            if ...:
                yield Conclusion("late reads orders-0 from offset 1, the end: …", ("late", "orders"), CERTAIN)

To add one, write it into the file about its subject (`consumers.py` …), name it in the `RULES` at that file's end, and
add the file to `RULES` in `conclusions.py`, if it is a new one. A fact that a rule needs, and that no document has
yet, is another part of `facts.py`: a generator in `PARTS` there, and its line in `merged_facts`.

The first sentence is the first line of a failed test's report. It names the actor, says what is so, and what to change
where the facts allow that; a rule that is not certain says nothing.
"""
