"""The lines that a failure is about, found in the submission's source."""

from grader import spec
from grader.cases.compare import Verdict
from grader.executors.runner import CaseResult
from grader.grading.marked_lines import marked_lines, own_names
from grader.spec.task import Task
from grader.status import Status

SOURCE = "def f():\n\n    tl.store(out_ptr, x)\n    y = tl.exp(x)\nout[i * n] += in[i];\n"


def marked(line=None, detail="", marks=()):
    verdict = Verdict(Status.data_race, "")
    return marked_lines(SOURCE, CaseResult(None, verdict, line, detail, marks=marks))


def test_a_line_is_marked_whole_where_no_place_is_known():
    [line] = marked(4)
    assert (line.line, line.text, line.start, line.length) == (4, "    y = tl.exp(x)", 0, 0)


def test_a_compilers_caret_gives_the_place():
    [line] = marked(4, "    y = tl.exp(x)\n        ^")
    assert (line.start, line.length) == (8, 1)
    [line] = marked(4, "y = tl.exp(x)\n    ^")
    assert (line.start, line.length) == (8, 1)


def test_a_store_is_the_place_of_who_writes_but_not_of_who_reads():
    store, element = marked(marks=((3, "program 1 stores"), (5, "thread 2 writes")))
    assert store.text[store.start :] == "tl.store(out_ptr, x)"
    assert element.text[element.start : element.start + element.length] == "out[i * n]"
    [line] = marked(marks=((5, "thread 2 reads"),))
    assert line.text[line.start : line.start + line.length] == "in[i]"


def test_who_reads_an_array_that_the_words_name_is_marked_there():
    what = "thread (0,0,0) writes 4 bytes at offset 8 of a at k.cu:1, which thread (1,0,0) reads"
    verdict = Verdict(Status.data_race, what)
    source = "sum += a[i][k] * b[k][j];\na[i] += a[i + half];\n"
    given = CaseResult(None, verdict, None, marks=((1, "thread 1 reads"), (2, "thread 1 reads")))
    places = [each.text[each.start :][: each.length] for each in marked_lines(source, given)]
    assert places == ["a[i][k]", "a[i + half]"]


def test_two_at_one_line_share_it():
    [line] = marked(marks=((5, "one writes"), (5, "two writes")))
    assert line.note == "one writes; two writes"


def test_a_line_that_is_not_there_is_left_out():
    assert marked(99) == marked(2) == marked() == ()


def test_the_names_that_an_entry_has_for_what_a_message_names_are_told() -> None:
    exercise = spec.load_all()["rmsnorm"]
    task = Task(exercise, exercise.variants["cuda_vector"])
    head = 'extern "C" void rms_norm_vector(const float* x, const float* weight, float* {}, '
    source = head + "int n, float epsilon) {{}}\n"
    told = "`eps` has no effect; out[3] is nan; it is left out of cols"
    said = own_names(task, source.format("res"), told)
    assert said == "In this file `out` is `res`, `cols` is `n`, `eps` is `epsilon`."
    assert own_names(task, source.format("out"), "out[3] is nan") == ""
    other = f"// out\n{source.format('res')}int f(int eps) {{ return eps; }}"
    assert own_names(task, other, told) == "In this file `out` is `res`, `cols` is `n`."
    assert own_names(task, source.format("res"), "it is left out") == ""
    assert own_names(task, "int main() {}", told) == ""
