// Package follow lets readers of a log wait until entries are appended.
//
//	hub.go   wakes the readers of this process when a commit of this process appended
//	poll.go  looks again after growing pauses, if appends happen in other processes
//	read.go  reads pages of logs, one read for readers who ask for the same page
//
// A reader follows a group, reads, and waits if there was nothing. Because it follows before it
// reads, an append between the two wakes it:
//
//	f := hub.Follow(group)
//	defer f.Close()
//	for {
//		page, err := read()
//		…
//		err = f.Wait(ctx)
//	}
package follow
