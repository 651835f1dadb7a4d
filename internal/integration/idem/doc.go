// Package idem runs the conformance suite of package idem's stores on real servers: etcd in this process,
// SQLite in a file, Postgres and MariaDB where one is named in the environment (see .ci/servers). It also counts
// what they cost.
package idem
