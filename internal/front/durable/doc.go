// Package durable serves logs of groups by the Durable Streams protocol, an open protocol whose
// client libraries then work: PUT, POST, GET, HEAD and DELETE of /v1/stream/{stream}/{group}.
//
// A stream of the protocol is the log of a group. Each request that writes is one message without a
// queue, which the handler of [Wrap] turns into entries. The data of the protocol, such as the last
// number of each producer, are the state of the group: it changes in the commit that appends.
//
// # Limits
//
// Forks and subscriptions of the protocol are not supported. Streams whose handlers are code can be
// read only, because their state is their own.
package durable
