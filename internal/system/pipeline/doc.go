// Package pipeline puts the engine between its queues, wherever the system runs: the embedded
// system and the deployed functions give it their store and their queues, and get the same streams,
// the same ways between the queues and the same functions.
package pipeline
