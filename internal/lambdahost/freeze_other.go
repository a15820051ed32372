//go:build !unix

package lambdahost

// freeze can't stop a process here; it ends it.
func (i *Instance) freeze() { i.Kill() }
