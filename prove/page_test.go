package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATableThatDiffersFromThePageIsAnErrorWithItsRows(t *testing.T) {
	root := t.TempDir()
	page := filepath.Join(root, "docs", "correctness.md")
	if err := os.Mkdir(filepath.Dir(page), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "before\n<!-- x -->\n\n| a | 1 |\n| b | 2 |\n\n<!-- end of x -->\nafter\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options{root: root}
	if err := o.documented("x", "| a | 1 |\n| b | 2 |\n"); err != nil {
		t.Errorf("the same table: got %v", err)
	}
	result := "| a | 1 |\n| b | 3 |\n"
	err := o.documented("x", result)
	if err == nil || !strings.Contains(err.Error(), "\n-| b | 2 |\n+| b | 3 |\n") || strings.Contains(err.Error(), "| a |") {
		t.Errorf("another row: got %v", err)
	}
	o.update = true
	if err := o.documented("x", result); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(page); string(got) != strings.Replace(text, "| b | 2 |", "| b | 3 |", 1) {
		t.Errorf("updated page: got %q", got)
	}
	if err := o.documented("y", result); err == nil {
		t.Error("a table without marks: got no error")
	}
}
