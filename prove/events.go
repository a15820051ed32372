package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An event is one line of the output of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

func eachEvent(r io.Reader, each func(event)) error {
	lines := json.NewDecoder(r)
	for {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read events of go test: %w", err)
		}
		each(e)
	}
}
