"""The plugin in pytest: the cost of loading it, its fixtures, its options."""

import subprocess
import sys

import pytest

import ledgerstone.testing.broker  # noqa: F401 - loaded here, so that no inner run loads it anew

pytest_plugins = ["pytester"]

WRITES = """
def test_it(ledgerstone):
    ledgerstone.topic("users")
    ledgerstone.produce("users", "a", "1")
"""


def test_loading_the_plugin_loads_nothing_of_a_broker() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import ledgerstone.testing.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [
        "ledgerstone",
        "ledgerstone.testing",
        "ledgerstone.testing.plugin",
    ]


def test_broker_that_cleans_nothing_loads_no_cleaner_and_no_rewritten_module(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import gc, sys

        def test_it(ledgerstone):
            assert gc.isenabled()
            assert not {"numpy", "ledgerstone.cleaner.worker", "ledgerstone.erasure.worker"} & {
                *sys.modules
            }
            loader = sys.modules["ledgerstone.testing.broker"].__spec__.loader
            assert not type(loader).__module__.startswith("_pytest")
        """
    )

    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_every_test_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("turn", [1, 2])
        def test_topic_is_new(ledgerstone, turn):
            ledgerstone.topic("users")
            ledgerstone.produce("users", "a", str(turn))
            assert ledgerstone.state("users") == {b"a": str(turn).encode()}
        """
    )

    pytester.runpytest_inprocess().assert_outcomes(passed=2)


def test_session_has_one_broker_and_each_topic_a_name_of_its_own(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        seen = []

        def write(broker):
            topic = broker.topic("users")
            broker.produce(topic, "a", "1")
            broker.assert_state(topic, {"a": "1"})
            seen.append((broker.bootstrap, topic))

        def test_one(ledgerstone_session): write(ledgerstone_session)
        def test_two(ledgerstone_session): write(ledgerstone_session)

        def test_both():
            (first, one), (second, two) = seen
            assert first == second
            assert one != two
        """
    )

    pytester.runpytest_inprocess().assert_outcomes(passed=3)


def test_factory_makes_brokers_to_order_and_ends_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        made = []

        def test_two(ledgerstone_broker):
            made.extend([ledgerstone_broker(), ledgerstone_broker(num_partitions=3)])
            with made[1].client() as client:
                made[1].topic("users", partitions=-1)
                assert len(client.topic("users").partitions) == 3
            made[0].kill()

        def test_none_is_left():
            assert [each.is_running for each in made] == [False, False]
        """
    )

    pytester.runpytest_inprocess().assert_outcomes(passed=2)


def test_factory_ends_all_brokers_if_one_of_them_cannot_stop(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        made = []

        def test_three(ledgerstone_broker):
            made.extend(ledgerstone_broker() for _ in range(3))
            stop = made[1].stop

            def refuse():
                stop()
                raise TimeoutError("it hangs")

            made[1].stop = refuse

        def test_none_is_left():
            assert [each.is_running for each in made] == [False, False, False]
        """
    )

    pytester.runpytest_inprocess().assert_outcomes(passed=2, errors=1)


def test_data_goes_with_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WRITES)

    result = pytester.runpytest_inprocess(f"--basetemp={pytester.path / 'base'}")

    result.assert_outcomes(passed=1)
    assert not list((pytester.path / "base").rglob("*.log"))


def test_data_is_kept_where_that_is_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WRITES)
    base = pytester.path / "base"

    result = pytester.runpytest_inprocess("--ledgerstone-keep-data", f"--basetemp={base}")

    result.assert_outcomes(passed=1)
    (kept,) = base.rglob("users-0")
    result.stdout.fnmatch_lines([f"ledgerstone: data of *test_it: {kept.parent}"])


def test_data_of_the_session_and_of_a_factory_is_kept_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(ledgerstone_session, ledgerstone_broker):
            ledgerstone_session.topic("shared")
            ledgerstone_broker().topic("own")
        """
    )
    base = pytester.path / "base"

    result = pytester.runpytest_inprocess("--ledgerstone-keep-data", f"--basetemp={base}")

    result.assert_outcomes(passed=1)
    assert {each.name for each in base.glob("*/*-0")} >= {"shared-1-0", "own-0"}
    result.stdout.fnmatch_lines(["ledgerstone: data of the session: *"])


def test_ini_file_has_settings_for_every_broker(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nledgerstone_config =\n    num.partitions=4\n    node.id = 7\n")
    pytester.makepyfile(
        """
        def test_it(ledgerstone):
            config = ledgerstone.on_the_loop(lambda running: running.broker.config)
            assert (config.num_partitions, config.node_id) == (4, 7)
        """
    )

    pytester.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("num.partitions", "*'num.partitions' is not key=value*"),
        ("a.b=1", "*not a setting of the broker: 'a.b'*"),
        ("num.partition=1", "*did you mean 'num.partitions'?*"),
    ],
)
def test_ini_setting_that_cannot_be_obeyed_is_an_error(
    pytester: pytest.Pytester, line: str, message: str
) -> None:
    pytester.makeini(f"[pytest]\nledgerstone_config = {line}\n")
    pytester.makepyfile(WRITES)

    result = pytester.runpytest_inprocess()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_failed_assertion_is_shown_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WRITES + '    ledgerstone.assert_gone("users", "a")\n')

    result = pytester.runpytest_inprocess()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ['>*ledgerstone.assert_gone("users", "a")', "*users-0 offset 0: live*", "test_*.py:4: *"]
    )


def test_workers_of_xdist_have_brokers_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("turn", range(4))
        def test_it(ledgerstone, ledgerstone_session, turn):
            ledgerstone.topic("users")
            ledgerstone.produce("users", "a", str(turn))
            topic = ledgerstone_session.topic("users")
            ledgerstone_session.produce(topic, "a", str(turn))
            assert ledgerstone.state("users") == ledgerstone_session.state(topic)
        """
    )

    result = pytester.runpytest_subprocess("-n", "2")

    result.assert_outcomes(passed=4)


def test_scenario_fixture_runs_a_test_for_each_scenario(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from tests.testing.wrong_consumers import Resuming

        def test_mine(tombstone_scenario):
            tombstone_scenario.skip_if({"missed_delete": "rebuilt every night"})
            tombstone_scenario.check(Resuming().consume)
        """
    )

    result = pytester.runpytest_inprocess("-k", "null_value or missed_delete", "-rs")

    result.assert_outcomes(passed=2, skipped=1, deselected=12)
    result.stdout.fnmatch_lines(["SKIPPED*missed_delete: rebuilt every night"])


def test_reason_for_a_scenario_that_does_not_exist_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from tests.testing.wrong_consumers import Resuming

        class TestMine(Resuming):
            not_applicable = {"mised_delete": "a slip of the pen"}
        """
    )

    result = pytester.runpytest_inprocess("-k", "large_values")

    assert result.ret != 0
    result.stdout.fnmatch_lines(["*no scenario is called mised_delete; there are null_value,*"])


def test_keys_and_values_take_the_form_that_a_consumer_wants(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import json
        from tests.testing.wrong_consumers import Resuming

        class TestMine(Resuming):
            not_applicable = {"empty_value_is_no_tombstone": "values are JSON"}
            def make_key(self, name): return json.dumps({"id": name}).encode()
            def make_value(self, text): return json.dumps({"text": text}).encode()
            def apply(self, task, rows, number, record):
                json.loads(record.key)
                assert record.value is None or "text" in json.loads(record.value)
                super().apply(task, rows, number, record)
        """
    )

    result = pytester.runpytest_inprocess("-k", "null_value or empty_value or transaction")

    result.assert_outcomes(passed=5, skipped=1, deselected=9)


def test_class_without_a_consumer_says_what_it_lacks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from ledgerstone.testing.conformance import TombstoneConformance
        class TestMine(TombstoneConformance): pass
        """
    )

    result = pytester.runpytest_inprocess("-k", "large_values")

    result.assert_outcomes(failed=1, deselected=14)
    result.stdout.fnmatch_lines(["*TestMine has neither consume() nor start()*"])
