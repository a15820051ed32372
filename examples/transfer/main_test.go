package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	firstRun = `t-0 201 {"ID":"t-0","Balance":100}
t-1 201 {"ID":"t-1","Balance":30}
t-1 201 {"ID":"t-1","Balance":30} again
t-1 201 {"ID":"t-1","Balance":30} again
`
	laterRun = `t-0 201 {"ID":"t-0","Balance":100} again
t-1 201 {"ID":"t-1","Balance":30} again
t-1 201 {"ID":"t-1","Balance":30} again
t-1 201 {"ID":"t-1","Balance":30} again
`
	told = `bank got {"stream":"transfers","group":"alice","number":1,"content_type":"application/json","body":{"From":"alice","To":"bob","Cents":70}}
mail got {"stream":"transfers","group":"alice","number":2,"content_type":"application/json","body":{"ID":"t-1","Balance":30}}
`
)

func TestASecondRunOnTheSameFolderChangesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{firstRun + told, laterRun + told} {
		var out bytes.Buffer
		if err := run(t.Context(), &out, dir); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestWithoutAFolderEveryRunIsTheFirst(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(firstRun+told, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
