// Package faultproxy is an HTTP reverse proxy between a client and DynamoDB that injects faults:
// before a call is applied, after, or long after.
//
//	fault.go  the faults
//	plan.go   which calls they happen to
//	proxy.go  the proxy
//	client.go a client that times out when the proxy tells it to
//
// The tests in this folder run the pipeline on DynamoDB through the proxy. With any fault at one
// call, or at many, no message may be lost, doubled or stuck.
//
// # Plays
//
// A play is a scenario with one choice of faults, by a client that tries each call once or three
// times. A scenario has messages by key, by token and in sequence through the queues, and a request
// by Call: 9 to 15 calls if there are no faults. The number of plays in each form of the tests:
//
//	                                                  -short   by default   -long
//	each fault at each call                              232          920     920
//	a fault, and another worker before the next call     184          736     736
//	three faults at every two calls                       84          314    6192
//	faults at random, 24 messages, four workers            6           24    2400
//
// Run the long form after a change of the protocol or the store: go test
// ./internal/testkit/faultproxy -long -timeout 2h. In its first run, its last row made 387,752
// calls; all of it took 26 minutes on two busy processors, and found nothing. If a play fails, its
// faults or its seed are printed. A play that hangs is stopped after two minutes, with a dump of
// all goroutines.
//
// # Limits
//
// It is made for tests. It speaks HTTP/1.1 without TLS to its client, keeps each request and
// response in memory, and words errors as DynamoDB does.
package faultproxy
