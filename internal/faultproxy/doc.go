// Package faultproxy is an HTTP reverse proxy between a client and DynamoDB that breaks calls on purpose: before they are applied, after, or long after.
//
//	fault.go  what can happen to a call
//	plan.go   which calls it happens to
//	proxy.go  the proxy
//	client.go a client that gives up when the proxy says so
//
// The tests beside it run the pipeline on DynamoDB through it: whatever happens at any one call, and at many, nothing is lost, doubled or stuck.
//
// # Plays
//
// A play is a scenario (messages by key, by token and in sequence through the queues, and a request straight through: 9 to 15 calls where nothing happens) with one choice of faults, by
// a client that tries each call once or three times. So many plays each form of the tests has:
//
//	                                                  -short   by default   -long
//	each fault at each call                              232          920     920
//	a fault, and another worker before the next call     184          736     736
//	three faults at every two calls                       84          314    6192
//	faults at random, 24 messages, four workers            6           24    2400
//
// The long form is for whoever changes the protocol or the store: go test ./internal/faultproxy -long -timeout 2h. Its last row made 387,752 calls
// when it was run first; all of it took 26 minutes on two processors that had much else to do, and found nothing. A play that
// fails is named, by its faults or by its seed; one that hangs is ended after two minutes, with a dump of what every goroutine waits for.
//
// # Limits
//
// It is made for tests. It speaks HTTP/1.1 without TLS to its client, keeps each request and each answer in memory, and words errors as DynamoDB does.
package faultproxy
