// Package shell runs command lines, and ends them together with the processes that they have
// started.
package shell
