"""Writing whole to what others share, and to what a program has in the place of it."""

import io

from ore.files.whole import write_text


class Tee(io.TextIOWrapper):
    """A text file that keeps what is written to it."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.seen = []

    def write(self, text):
        self.seen.append(text)
        return super().write(text)


def test_a_stream_with_a_write_of_its_own_is_given_the_text():
    tee = Tee()
    write_text(tee, "Paris.\n")
    assert tee.seen == ["Paris.\n"] and tee.buffer.getvalue() == b"Paris.\n"
