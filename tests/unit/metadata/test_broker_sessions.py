"""What the active controller alone knows of brokers: sessions, and how far each one is."""

from ledgerstone.metadata.broker_sessions import BrokerSessions
from ledgerstone.metadata.image import BrokerImage, MetadataImage

TIMEOUT_MS = 9_000


def _image(*brokers: BrokerImage) -> MetadataImage:
    return MetadataImage(cluster_id="c", brokers={each.broker_id: each for each in brokers})


def _broker(broker_id: int, *, fenced: bool = False, leaving: bool = False) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=broker_id * 10,
        incarnation_id=bytes([broker_id] * 16),
        endpoints=(),
        fenced=fenced,
        in_controlled_shutdown=leaving,
    )


def _started(*brokers: BrokerImage, own_id: int | None = None) -> BrokerSessions:
    sessions = BrokerSessions(own_id=own_id, timeout_ms=TIMEOUT_MS)
    sessions.start(_image(*brokers), now_ms=1_000, end_offset=100)
    return sessions


def test_a_new_leader_gives_unfenced_brokers_a_whole_session_and_not_a_moment_more() -> None:
    sessions = _started(_broker(1), _broker(2, fenced=True))

    assert sessions.next_deadline_ms == 10_001
    assert sessions.take_expired(10_000) is None
    assert sessions.take_expired(10_001) == 1
    # The fenced one was never heard from: it has no session that could end.
    assert sessions.take_expired(99_999) is None
    assert sessions.next_deadline_ms is None


def test_a_heartbeat_moves_the_deadline_of_its_own_epoch_only() -> None:
    sessions = _started(_broker(1), _broker(2))

    sessions.contact(1, 10, 5_000)
    sessions.contact(2, 19, 5_000)

    assert sessions.take_expired(10_001) == 2
    assert sessions.take_expired(10_001) is None
    assert sessions.next_deadline_ms == 14_001


def test_a_broken_connection_leaves_a_broker_the_grace_and_no_more() -> None:
    sessions = BrokerSessions(timeout_ms=TIMEOUT_MS, grace_ms=3_000)
    sessions.start(_image(_broker(1), _broker(2)), now_ms=1_000, end_offset=100)
    sessions.contact(1, 10, 2_000)
    sessions.contact(2, 20, 2_000)

    sessions.hung_up(1, 10, 2_500)
    sessions.hung_up(2, 19, 2_500)

    assert sessions.next_deadline_ms == 5_501
    assert sessions.is_live(1, 10, 5_500)
    assert not sessions.is_live(1, 10, 5_501)
    assert sessions.take_expired(5_500) is None
    assert sessions.take_expired(5_501) == 1
    assert sessions.take_expired(5_501) is None


def test_a_heartbeat_after_a_broken_connection_gives_a_whole_session() -> None:
    sessions = BrokerSessions(timeout_ms=TIMEOUT_MS, grace_ms=3_000)
    sessions.start(_image(_broker(1)), now_ms=1_000, end_offset=100)
    sessions.hung_up(1, 10, 2_000)

    sessions.contact(1, 10, 4_000)

    assert sessions.take_expired(13_000) is None
    assert sessions.take_expired(13_001) == 1


def test_a_broken_connection_never_lengthens_a_session() -> None:
    sessions = BrokerSessions(timeout_ms=TIMEOUT_MS, grace_ms=3_000)
    sessions.start(_image(_broker(1)), now_ms=1_000, end_offset=100)

    sessions.hung_up(1, 10, 9_500)

    assert sessions.take_expired(10_001) == 1


def test_the_broker_of_the_last_controller_gets_the_grace_the_others_a_session() -> None:
    sessions = BrokerSessions(timeout_ms=TIMEOUT_MS, grace_ms=3_000)
    sessions.start(
        _image(_broker(1), _broker(2)), now_ms=1_000, end_offset=100, last_controller_id=2
    )

    assert sessions.take_expired(4_001) == 2
    assert sessions.take_expired(10_000) is None
    assert sessions.take_expired(10_001) == 1


def test_brokers_expire_one_at_a_time_the_longest_silent_first() -> None:
    sessions = _started(_broker(1), _broker(2), _broker(3))
    sessions.contact(1, 10, 3_000)
    sessions.contact(3, 30, 2_000)

    found = [sessions.take_expired(50_000) for _ in range(4)]

    assert found == [2, 3, 1, None]


def test_the_broker_in_this_process_does_not_expire_once_it_was_heard_from() -> None:
    sessions = _started(_broker(1), own_id=1)
    sessions.contact(1, 10, 1_001)

    assert sessions.take_expired(999_999) is None
    assert sessions.is_live(1, 10, 999_999)


def test_what_is_left_of_the_process_before_this_one_expires_and_keeps_nobody_out() -> None:
    sessions = _started(_broker(1), own_id=1)

    assert not sessions.is_live(1, 10, 1_000)
    assert sessions.take_expired(10_001) == 1


def test_a_session_is_live_up_to_its_timeout() -> None:
    sessions = _started(_broker(1))

    assert sessions.is_live(1, 10, 10_000)
    assert not sessions.is_live(1, 10, 10_001)
    assert not sessions.is_live(1, 11, 1_000)
    assert not sessions.is_live(2, 20, 1_000)


def test_a_new_incarnation_has_no_session_until_it_is_heard_from() -> None:
    sessions = _started(_broker(1))

    sessions.register(1, 77, registration_offset=80)

    assert not sessions.is_live(1, 77, 1_000)
    assert sessions.registration_offset(1) == 80
    assert sessions.silence_ms(1, 2_000) is None


def test_an_amended_registration_keeps_its_session() -> None:
    sessions = _started(_broker(1))

    sessions.register(1, 10, registration_offset=120)

    assert sessions.is_live(1, 10, 2_000)
    assert sessions.registration_offset(1) == 120


def test_the_lowest_offset_is_of_active_brokers_and_unknown_until_all_were_heard_from() -> None:
    brokers = [_broker(1), _broker(2), _broker(3, fenced=True), _broker(4, leaving=True)]
    sessions = _started(*brokers)

    sessions.applied(1, 150)
    assert sessions.lowest_offset(_image(*brokers)) == -1
    sessions.applied(2, 140)
    assert sessions.lowest_offset(_image(*brokers)) == 140
    assert sessions.lowest_offset(_image(*brokers[2:])) is None


def test_a_shutdown_under_way_goes_on_under_a_new_leader() -> None:
    sessions = _started(_broker(1, leaving=True), _broker(2, fenced=True, leaving=True))

    assert (sessions.shutdown_offset(1), sessions.shutdown_offset(2)) == (99, None)
    sessions.begin_shutdown(1, 500)
    assert sessions.shutdown_offset(1) == 99


def test_nothing_outlives_the_leadership() -> None:
    sessions = _started(_broker(1))

    sessions.clear()

    assert sessions.take_expired(99_999) is None
    assert sessions.next_deadline_ms is None
