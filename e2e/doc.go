// Package e2e checks the whole product from outside: it builds the real binary, runs it as a process of its own, kills it at bad moments, and
// judges it by what it printed, wrote and sent.
//
// The judges share no code with the engine. They read the file destination line by line, the log of a webhook receiver of their own, and what
// clients were told.
//
//	server_test.go      a process that can be killed and started again
//	killer_test.go      kills it at random moments
//	receiver_test.go    a webhook receiver that fails, forgets to answer, and remembers webhook-id
//	judge_test.go       what must hold for output, receiver and stores
//	deliveries_test.go  real GitHub webhook payloads, from npm
//	http_test.go …      the checks themselves
//
// It is a module of its own, so that the AWS SDK stays out of the product's go.mod.
package e2e
