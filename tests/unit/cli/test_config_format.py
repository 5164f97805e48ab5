"""The configuration file: its values, and where it is wrong."""

import pytest

from perdure.cli.config_format import BadConfig, Config, line_of, parse_config

WHOLE = """\
# of the cluster
[defaults]
engine = "slurm"
workers = 20

[slurm]
options = ["-p", "long"]
"""


def test_all_that_it_can_say():
    assert parse_config(WHOLE) == Config(engine="slurm", workers=20, slurm=("-p", "long"))


@pytest.mark.parametrize("text", ["", "# nothing\n", "[slurm]\n", "[defaults]\n[slurm]\n"])
def test_a_file_that_says_nothing(text):
    assert parse_config(text) == Config()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("\"-p long --comment='two words'\"", ("-p", "long", "--comment=two words")),
        ('["--comment=two words"]', ("--comment=two words",)),
        ("[]", ()),
        ('""', ()),
    ],
)
def test_options_as_words_or_as_one_text(options, words):
    assert parse_config(f"[slurm]\noptions = {options}").slurm == words


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[defaults]\nengine = slurm\n", 2, "it is no TOML: invalid value"),
        ("[defaults\n", 1, "it is no TOML"),
        ('[defaults]\n\n\nengine = "', 4, "it is no TOML"),
        ("[slurm]\n\n[lsf]\nqueue = 1\n", 3, "'lsf' is not known; there are [defaults], [slurm]"),
        ("engine = 1\n", 1, "'engine' is not known"),
        ("slurm = 1\n", 1, "'slurm' is not known"),
        (
            "[slurm]\n# \npartition = 1\n",
            3,
            "'partition' is not known in [slurm]; there is options",
        ),
        ('[defaults]\nengine = "lsf"\n', 2, "engine is one of local, slurm, not 'lsf'"),
        ("[defaults]\nengine = 1\n", 2, "engine is one of"),
        ("[defaults]\n\nworkers = 0\n", 3, "workers is a number from 1 on, not 0"),
        ("[defaults]\nworkers = true\n", 2, "not True"),
        ("[slurm]\noptions = 3\n", 2, "options is a list of texts, or one text, not 3"),
        ("[slurm]\noptions = [1]\n", 2, "options is a list of texts"),
        ('[slurm]\noptions = "-p \'a"\n', 2, "cannot be read: No closing quotation"),
        ("defaults.workers = 0\n", 1, "workers is a number"),
        ("defaults = {engine = 1, workers = 0}\n", 1, "engine is one of"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, line, said):
    with pytest.raises(BadConfig) as caught:
        parse_config(text)
    assert said in caught.value.reason
    assert caught.value.line == line


def test_a_key_of_another_section_is_not_taken_for_it():
    text = "[a]\noptions = 1\n[slurm]\noptions = 2\n"
    assert line_of(text, "slurm", "options") == 4
    assert line_of(text, "slurm", "other") is None
