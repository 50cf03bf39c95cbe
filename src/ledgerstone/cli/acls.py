"""`ledgerstone acls`: who may do what. Shell. Options are named as those of `kafka-acls`."""

from typing import Annotated, Final

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, connect
from ledgerstone.cli.output import Cell, flush, write_line, write_rows
from ledgerstone.client.acls import create_acls, delete_acls, describe_acls
from ledgerstone.security.acl import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from ledgerstone.security.acl_wishes import (
    CLUSTER,
    CONSUMER,
    IDEMPOTENT,
    PRODUCER,
    AclResource,
    AclWish,
    Operations,
    acls_for,
    filters_for,
    operations_on,
)

app = new_app("List, add and remove ACLs.")

_COLUMNS: Final = ("resource", "name", "pattern", "principal", "host", "operation", "permission")

TopicsOption = Annotated[list[str] | None, typer.Option("--topic", help="A topic; * is all.")]
GroupsOption = Annotated[list[str] | None, typer.Option("--group", help="A group; * is all.")]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
TransactionalIdsOption = Annotated[
    list[str] | None, typer.Option("--transactional-id", help="A transactional id; * is all.")
]
TokensOption = Annotated[
    list[str] | None, typer.Option("--delegation-token", help="A delegation token.")
]
UsersOption = Annotated[
    list[str] | None, typer.Option("--user-principal", help="A user, as what is acted upon.")
]
AllowedOption = Annotated[
    list[str] | None, typer.Option("--allow-principal", help="Who may: User:NAME, User:* for all.")
]
DeniedOption = Annotated[
    list[str] | None,
    typer.Option("--deny-principal", help="Who may not, whatever else is allowed."),
]
AllowedHostsOption = Annotated[
    list[str] | None, typer.Option("--allow-host", help="From which address; all if none is given.")
]
DeniedHostsOption = Annotated[
    list[str] | None, typer.Option("--deny-host", help="The same for those who may not.")
]
OperationsOption = Annotated[
    list[str] | None, typer.Option("--operation", help="Read, Write, ...; All if none is given.")
]
PatternOption = Annotated[
    str, typer.Option("--resource-pattern-type", help="How names are meant: literal or prefixed.")
]
AnyPatternOption = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        help="literal, prefixed, any, or match: every pattern that covers the name.",
    ),
]
ProducerOption = Annotated[
    bool,
    typer.Option(
        "--producer",
        help="What a producer needs: Write, Describe and Create on its topics; with "
        "--transactional-id what transactions need.",
    ),
]
ConsumerOption = Annotated[
    bool,
    typer.Option(
        "--consumer", help="What a consumer needs: Read and Describe on its topics, Read on groups."
    ),
]
IdempotentOption = Annotated[
    bool, typer.Option("--idempotent", help="With --producer: IdempotentWrite on the cluster.")
]


@app.command("list")
def list_acls(
    topic: TopicsOption = None,
    group: GroupsOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalIdsOption = None,
    delegation_token: TokensOption = None,
    user_principal: UsersOption = None,
    principal: Annotated[
        list[str] | None, typer.Option("--principal", help="Only those of this principal.")
    ] = None,
    resource_pattern_type: AnyPatternOption = "any",
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List ACLs: all, or those of the resources that are named."""
    resources = _resources(
        topic, group, transactional_id, delegation_token, user_principal, cluster=cluster
    )
    filters = filters_for(resources, _pattern(resource_pattern_type))
    if principal:
        filters = [each._replace(principal=name) for each in filters for name in principal]
    with connect(bootstrap) as client:
        found = {acl: None for each in filters for acl in describe_acls(client, each)}
    write_rows(_COLUMNS, [_row(each) for each in sorted(found)], as_json=as_json)


@app.command("add")
def add(
    topic: TopicsOption = None,
    group: GroupsOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalIdsOption = None,
    delegation_token: TokensOption = None,
    user_principal: UsersOption = None,
    allow_principal: AllowedOption = None,
    deny_principal: DeniedOption = None,
    allow_host: AllowedHostsOption = None,
    deny_host: DeniedHostsOption = None,
    operation: OperationsOption = None,
    resource_pattern_type: PatternOption = "literal",
    producer: ProducerOption = False,
    consumer: ConsumerOption = False,
    idempotent: IdempotentOption = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Add ACLs. Those that are there already stay as they are."""
    resources = _resources(
        topic, group, transactional_id, delegation_token, user_principal, cluster=cluster
    )
    wish = _wish(allow_principal, deny_principal, allow_host, deny_host)
    if not wish.rules():
        raise typer.BadParameter("name somebody with --allow-principal or --deny-principal")
    acls = _wanted(
        wish,
        resources,
        operation,
        resource_pattern_type,
        producer=producer,
        consumer=consumer,
        idempotent=idempotent,
    )
    with connect(bootstrap) as client:
        create_acls(client, acls)
    write_rows(_COLUMNS, [_row(each) for each in acls], as_json=as_json)


@app.command("remove")
def remove(
    topic: TopicsOption = None,
    group: GroupsOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalIdsOption = None,
    delegation_token: TokensOption = None,
    user_principal: UsersOption = None,
    allow_principal: AllowedOption = None,
    deny_principal: DeniedOption = None,
    allow_host: AllowedHostsOption = None,
    deny_host: DeniedHostsOption = None,
    operation: OperationsOption = None,
    resource_pattern_type: AnyPatternOption = "literal",
    producer: ProducerOption = False,
    consumer: ConsumerOption = False,
    idempotent: IdempotentOption = False,
    force: Annotated[bool, typer.Option("--force", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove ACLs: exactly those that `add` would add, or with no principal all of a resource."""
    resources = _resources(
        topic, group, transactional_id, delegation_token, user_principal, cluster=cluster
    )
    if not resources and not producer and not consumer:
        raise typer.BadParameter("name a resource")
    wish = _wish(allow_principal, deny_principal, allow_host, deny_host)
    if wish.rules():
        pattern = _pattern(resource_pattern_type)
        acls = _wanted(
            wish,
            resources,
            operation,
            "literal",
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
        )
        filters = [
            AclFilter(*each)._replace(
                pattern_type=each.pattern_type
                if each.resource_type == AclResourceType.CLUSTER
                else pattern
            )
            for each in acls
        ]
    else:
        filters = filters_for(resources, _pattern(resource_pattern_type))
        if not force:
            typer.confirm("Remove all ACLs of these resources?", abort=True, err=True)
    with connect(bootstrap) as client:
        removed = delete_acls(client, filters)
    write_rows(_COLUMNS, [_row(each) for each in removed], as_json=as_json)
    if not removed and not as_json:
        write_line("no ACL matched")
        flush()


def _wanted(
    wish: AclWish,
    resources: list[AclResource],
    operation: list[str] | None,
    pattern_name: str,
    *,
    producer: bool,
    consumer: bool,
    idempotent: bool,
) -> list[Acl]:
    pattern = _pattern(pattern_name)
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise typer.BadParameter(f"{pattern_name}: only literal or prefixed can be added")
    if idempotent and not producer:
        raise typer.BadParameter("--idempotent goes with --producer")
    if producer or consumer:
        if operation:
            raise typer.BadParameter("--producer and --consumer say which operations they need")
        return _conveniences(wish, resources, pattern, producer=producer, consumer=consumer) + (
            acls_for(wish, {CLUSTER: IDEMPOTENT[CLUSTER.resource_type]}, pattern)
            if idempotent
            else []
        )
    if not resources:
        raise typer.BadParameter("name a resource: --topic, --group, --cluster, ...")
    operations = [_operation(each) for each in operation or ("all",)]
    try:
        return acls_for(wish, operations_on(resources, operations), pattern)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _conveniences(
    wish: AclWish,
    resources: list[AclResource],
    pattern: PatternType,
    *,
    producer: bool,
    consumer: bool,
) -> list[Acl]:
    kinds = {each.resource_type for each in resources}
    if AclResourceType.TOPIC not in kinds:
        raise typer.BadParameter("name a topic")
    if consumer and AclResourceType.GROUP not in kinds:
        raise typer.BadParameter("--consumer needs a group, too")
    acls: list[Acl] = []
    needs: list[Operations] = [PRODUCER] * producer + [CONSUMER] * consumer
    for each in needs:
        wanted = {
            resource: each[resource.resource_type]
            for resource in resources
            if resource.resource_type in each
        }
        acls += acls_for(wish, wanted, pattern)
    return list(dict.fromkeys(acls))


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    tokens: list[str] | None,
    users: list[str] | None,
    *,
    cluster: bool,
) -> list[AclResource]:
    named = {
        AclResourceType.TOPIC: topics,
        AclResourceType.GROUP: groups,
        AclResourceType.TRANSACTIONAL_ID: transactional_ids,
        AclResourceType.DELEGATION_TOKEN: tokens,
        AclResourceType.USER: users,
    }
    found = [AclResource(kind, name) for kind, names in named.items() for name in names or ()]
    return [*found, CLUSTER] if cluster else found


def _wish(
    allowed: list[str] | None,
    denied: list[str] | None,
    allowed_hosts: list[str] | None,
    denied_hosts: list[str] | None,
) -> AclWish:
    for each in (*(allowed or ()), *(denied or ())):
        if ":" not in each:
            raise typer.BadParameter(f"{each}: write User:{each}")
    if allowed_hosts and not allowed:
        raise typer.BadParameter("--allow-host goes with --allow-principal")
    if denied_hosts and not denied:
        raise typer.BadParameter("--deny-host goes with --deny-principal")
    return AclWish(allowed or (), denied or (), allowed_hosts or (), denied_hosts or ())


def _pattern(name: str) -> PatternType:
    try:
        return PatternType[name.upper()]
    except KeyError as error:
        raise typer.BadParameter(f"there is no pattern type {name}") from error


def _operation(name: str) -> AclOperation:
    """`DescribeConfigs`, `describe_configs` and `DESCRIBE-CONFIGS` are the same."""
    plain = name.replace("_", "").replace("-", "").lower()
    for each in AclOperation:
        if each is not AclOperation.ANY and each.name.replace("_", "").lower() == plain:
            return each
    raise typer.BadParameter(f"there is no operation {name}")


def _row(acl: Acl) -> tuple[Cell, ...]:
    return (
        _name(AclResourceType, acl.resource_type),
        acl.resource_name,
        _name(PatternType, acl.pattern_type),
        acl.principal,
        acl.host,
        _name(AclOperation, acl.operation),
        _name(PermissionType, acl.permission_type),
    )


def _name(
    kind: type[AclResourceType | PatternType | AclOperation | PermissionType], code: int
) -> str:
    """As in Kafka's words; a code of a later release as it is."""
    return kind(code).name if code in list(kind) else str(code)
