package main

import (
	"fmt"
	"path/filepath"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/embedded"
)

// open opens the system on a folder of this machine, with two destinations there,
// and registers the handler.
func open(dir string, o embedded.Options) (*once.System, error) {
	o.Config = fmt.Sprintf(`
streams:
  transfers: {admission: key, destinations: [bank, mail]}
destinations:
  bank: {file: %q}
  mail: {file: %q}
`, filepath.Join(dir, "bank.jsonl"), filepath.Join(dir, "mail.jsonl"))
	sys, err := embedded.Open(dir, o)
	if err != nil {
		return nil, err
	}
	once.Handle(sys, "transfers", transfer)
	return sys, nil
}
