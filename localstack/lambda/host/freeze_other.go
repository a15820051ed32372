//go:build !unix

package host

// freeze kills the process, because it can't be stopped on this system.
func (i *Instance) freeze() { i.Kill() }
