package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/embedded"
)

type olderState struct{ Old int }

type newerState struct {
	Old int
	New struct{ Messages []int }
}

// TestVersionsThatTakeTurnsOnAFolderKeepTheFieldsOfEachOther kills a program of one version after
// each commit, and starts one of the other version on the folder.
func TestVersionsThatTakeTurnsOnAFolderKeepTheFieldsOfEachOther(t *testing.T) {
	if version := os.Getenv("ONCE_TEST_VERSION"); version != "" {
		runVersion(t, version)
		return
	}
	folder, want := t.TempDir(), ""
	for n := range 6 {
		version := "newer"
		if n%2 == 1 {
			version = "older"
		} else {
			want = strings.TrimSpace(want + " " + strconv.Itoa(n))
		}
		program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		program.Env = append(os.Environ(), "ONCE_TEST_VERSION="+version, "ONCE_TEST_FOLDER="+folder, "ONCE_TEST_ID="+strconv.Itoa(n))
		out, err := program.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := program.StdinPipe() // the program waits for its end
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err := program.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = program.Wait() // it was killed
		_ = in.Close()
		expected := fmt.Sprintf("%d\n", n+1)
		if version == "newer" {
			expected = fmt.Sprintf("%d [%s]\n", n+1, want)
		}
		if err != nil || line != expected {
			t.Fatalf("message %d, %s version: got %q, %v, want %q", n, version, line, err, expected)
		}
	}
}

// runVersion commits one message, prints the state, and waits until it is killed.
func runVersion(t *testing.T, version string) {
	sys, err := embedded.Open(os.Getenv("ONCE_TEST_FOLDER"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(os.Getenv("ONCE_TEST_ID"))
	if err != nil {
		t.Fatal(err)
	}
	var state string
	if version == "newer" {
		once.Handle(sys, "visits", func(_ context.Context, a *once.Attempt[newerState], _ once.Message) error {
			a.State.Old++
			a.State.New.Messages = append(a.State.New.Messages, id)
			state = fmt.Sprint(a.State.Old, a.State.New.Messages)
			return nil
		})
	} else {
		once.Handle(sys, "visits", func(_ context.Context, a *once.Attempt[olderState], _ once.Message) error {
			a.State.Old++
			state = fmt.Sprint(a.State.Old)
			return nil
		})
	}
	if o := sys.Call(t.Context(), once.Message{Stream: "visits", Group: "g", ID: strconv.Itoa(id)}); o.Kind != once.Processed {
		t.Fatalf("%+v", o)
	}
	_, _ = os.Stdout.WriteString(state + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}
