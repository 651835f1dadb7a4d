// Package echopb is the service that grpcrouter's tests and benchmarks call.
package echopb

// protoc 3.21, protoc-gen-go 1.36.11 and protoc-gen-go-grpc 1.6.2 made what is committed.
//go:generate protoc -I ../../../.. --go_out=../../../.. --go_opt=paths=source_relative --go-grpc_out=../../../.. --go-grpc_opt=paths=source_relative router/grpcrouter/internal/echopb/echo.proto
