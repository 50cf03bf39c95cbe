"""Rules that ask for one right on the cluster. Grade D, through the handlers.

What is refused gets CLUSTER_AUTHORIZATION_FAILED wherever its answer has a place for it.
"""

from ledgerstone.protocol.messages.describe_cluster import DescribeClusterResponse
from ledgerstone.protocol.messages.list_groups import ListGroupsResponse
from ledgerstone.security.acl import CLUSTER_NAME, AclOperation, AclResourceType
from ledgerstone.server.authorising.call import GuardedCall, Rule
from ledgerstone.server.authorising.refusals import refused_by_cluster
from ledgerstone.server.request import Answer


def open_to_all(call: GuardedCall) -> Answer:
    return call.pass_on()


def needs(operation: AclOperation, *others: AclOperation, rest: Rule = open_to_all) -> Rule:
    """One of these rights on the cluster; then the rest."""
    wanted = (operation, *others)

    def rule(call: GuardedCall) -> Answer:
        if any(call.sees_on_cluster(each) for each in wanted[1:]) or call.may_on_cluster(operation):
            return rest(call)
        return refused_by_cluster(call.message, call.version)

    return rule


def cluster_bits(call: GuardedCall) -> int:
    """What an answer shows of the cluster; nothing to those who may not describe it."""
    if not call.sees_on_cluster(AclOperation.DESCRIBE):
        return 0
    return call.rights.shown_bits(AclResourceType.CLUSTER, CLUSTER_NAME)


def describe_cluster(call: GuardedCall) -> Answer:
    """Open to all; only the operations are each principal's own."""
    if not call.message.include_cluster_authorized_operations:
        return call.pass_on()

    def finish(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if not response.error_code:
            response.cluster_authorized_operations = cluster_bits(call)
        return response

    return call.pass_on(finish=finish)


def list_groups(call: GuardedCall) -> Answer:
    """All of them, or those that the principal may describe."""
    if call.sees_on_cluster(AclOperation.DESCRIBE):
        return call.pass_on()

    def finish(response: ListGroupsResponse) -> ListGroupsResponse:
        describe, group = AclOperation.DESCRIBE, AclResourceType.GROUP
        response.groups = [
            each for each in response.groups if call.sees(describe, group, each.group_id)
        ]
        return response

    return call.pass_on(finish=finish)
