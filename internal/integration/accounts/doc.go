// Package accounts tests the example examples/accounts as it is deployed: built as its Dockerfile builds it, run as processes
// with the arguments of its Kubernetes manifests, restarted under load, and let into etcd by the role that its script makes.
// It has no code to import.
//
//	go test ./internal/integration/accounts                                the short form
//	go test ./internal/integration/accounts -run Rolling -v -full          five processes, 200 requests in flight, ten rounds
//
// With TENURE_TEST_POSTGRES set accounts are in Postgres, else in SQLite.
package accounts
