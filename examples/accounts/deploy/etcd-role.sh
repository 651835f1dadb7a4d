#!/bin/sh
# Makes the etcd user of the accounts service, and the least role that it works with. Run it once, as etcd's root, with
# etcdctl set up by its own variables (ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY or ETCDCTL_USER).
# Authentication has to be on: etcdctl auth enable.
#
# The user has no password: etcd started with --client-cert-auth takes the common name of a client's certificate as
# the user's, so issue the service's certificate with CN=accounts.
set -eu

etcdctl role add accounts
# All keys of the group "accounts" lie under this prefix: shard.Group.Prefix, "/tenure", then its name. The slash at the
# end matters: without it the role would be one for the group "accounts-2" too.
etcdctl role grant-permission accounts --prefix=true readwrite /tenure/accounts/
etcdctl user add accounts --no-password
etcdctl user grant-role accounts accounts
