"""What each fault does to a simulated cluster of controllers and brokers. Part of sim."""

from contextlib import suppress

from ledgerstone.errors import NotController
from ledgerstone.metadata.image import ResourceType
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import BeginTransactionRecord, ConfigRecord
from ledgerstone.sim.controller.process import process_of
from ledgerstone.sim.controller.stage import SimStage
from ledgerstone.sim.quorum.faults import Faults
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.script_text import Fault

# A controlled shutdown that takes longer ends with a kill.
_STOP_LIMIT_MS = 25_000


class ClusterFaults(Faults):
    def __init__(self, stage: SimStage) -> None:
        super().__init__(stage.world, stage.network, stage.fleet)
        self._stage = stage

    def strike(self, fault: Fault) -> None:
        if fault.kind == "open" and not self.is_over:
            self._leave_transaction_open()
        else:
            super().strike(fault)

    def _leave_transaction_open(self) -> None:
        """An active controller begins a metadata transaction, and loses the lead in its midst."""
        for machine in self._stage.fleet:
            process = process_of(machine)
            if process is None or not process.link.is_active or machine.is_paused:
                continue
            begun: list[MetadataRecord] = [
                BeginTransactionRecord("left open"),
                ConfigRecord(ResourceType.BROKER, "", "log.retention.ms", "1"),
            ]
            epoch = process.quorum.epoch
            with suppress(NotController):
                process.link.write(begun)
            process.quorum.resign(epoch)

    def strike_node(self, fault: Fault, machine: Machine) -> None:
        match fault.kind:
            case "jump":
                machine.wall_ahead_ms = fault.number("ahead")
            case "bounce":
                machine.lose_power(fault.number("mode"))
                machine.come_back(fault.number("down"))
            case "stop":
                self._stop(fault, machine)
            case _:
                super().strike_node(fault, machine)

    def _stop(self, fault: Fault, machine: Machine) -> None:
        """A broker asks to be let go first; a controller hands over and goes."""
        process = process_of(machine)
        if process is None or process.broker is None or machine.is_paused:
            super().strike_node(fault, machine)
            return
        self._stage.down_ms[machine.number] = fault.number("down")
        incarnation = machine.incarnation
        process.broker.leave()

        def kill() -> None:
            if machine.incarnation == incarnation:
                machine.die()
                machine.come_back(fault.number("down"))

        self.world.after(_STOP_LIMIT_MS, f"n{machine.number} is killed", kill)
