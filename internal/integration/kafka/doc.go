// Package kafka tests router/kafka against brokers: each test runs on kfake, in this process, and on the real one that TENURE_TEST_KAFKA names,
// which ".ci/kafka start DIR" starts. The library's own module may not require kfake, so what needs a broker is here.
package kafka
