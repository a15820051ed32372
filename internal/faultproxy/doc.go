// Package faultproxy is an HTTP reverse proxy between a client and DynamoDB that breaks calls on purpose: before they are applied, after, or long after.
//
//	fault.go  what can happen to a call
//	plan.go   which calls it happens to
//	proxy.go  the proxy
//	client.go a client that gives up when the proxy says so
//
// The tests beside it run the pipeline on DynamoDB through it: whatever happens at any one call, and at many, nothing is lost, doubled or stuck.
//
// # Limits
//
// It is made for tests. It speaks HTTP/1.1 without TLS to its client, keeps each request and each answer in memory, and words errors as DynamoDB does.
package faultproxy
