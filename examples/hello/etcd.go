package main

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas/etcdkv"
)

func dial(endpoints []string) (store *etcdkv.Store, hangUp func() error) {
	client := must(clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    10 * time.Second, // a connection that drops its packets is noticed. grpc takes no less
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               zap.NewNop(), // else 40 lines a second while etcd is away; the node says what matters
	}))
	return etcdkv.New(client), client.Close
}
