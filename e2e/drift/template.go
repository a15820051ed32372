package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// stack is the content of a template.
type stack struct {
	name      string
	resources map[string]resource // by logical id
}

type resource struct {
	Type       string
	Properties map[string]any
}

// readStacks reads the stacks of a synthesized app.
func readStacks(dir string) ([]stack, error) {
	var manifest struct {
		Artifacts map[string]struct {
			Type       string
			Properties struct {
				TemplateFile string
				StackName    string
			}
		}
	}
	if err := readJSON(filepath.Join(dir, "manifest.json"), &manifest); err != nil {
		return nil, err
	}
	var stacks []stack
	for id, a := range manifest.Artifacts {
		if a.Type != "aws:cloudformation:stack" {
			continue
		}
		var template struct{ Resources map[string]resource }
		if err := readJSON(filepath.Join(dir, a.Properties.TemplateFile), &template); err != nil {
			return nil, err
		}
		name := a.Properties.StackName
		if name == "" {
			name = id
		}
		stacks = append(stacks, stack{name, template.Resources})
	}
	if len(stacks) == 0 {
		return nil, fmt.Errorf("read app %s: it has no stack", dir)
	}
	return stacks, nil
}

func readJSON(path string, to any) error {
	data, err := os.ReadFile(path) //nolint:gosec // whoever runs this names the folder
	if err == nil {
		err = decode(data, to)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// decode keeps numbers as they are written, so that they can be compared as text.
func decode(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(to)
}
