// Package consumertest tests consumers of sessions: each row of the table of faults in
// docs/sessions.md is a test that every kind of consumer has to pass.
//
//	suite.go   the tests
//	server.go  a transport that loses requests and answers
//	crash.go   consumers that crash, also in processes of their own
//	kinds.go   consumers whose work is in the engine, in files, and in other systems
package consumertest
