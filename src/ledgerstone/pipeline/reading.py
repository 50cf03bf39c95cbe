"""How a pipeline reads its topic: options of the reader, by Spark's names for them. Shell.

Some of them are in a file that the definition names.
"""

from ledgerstone.pipeline.connecting import security_options
from ledgerstone.pipeline.definition import Source


def common_options(source: Source) -> dict[str, str]:
    return {
        **security_options(source.command_config),
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": source.topic,
        "kafka.isolation.level": source.isolation,
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }
