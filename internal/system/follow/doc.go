// Package follow lets readers of a log wait until entries are appended.
//
// A reader follows a group, reads, and waits if there was nothing. Because it follows before it
// reads, an append between the two wakes it.
package follow
