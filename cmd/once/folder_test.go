package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
)

func TestAFolderThatIsNoDataFolderIsRefusedAndNothingIsWrittenToIt(t *testing.T) {
	dir := t.TempDir()
	for name, open := range map[string]opening{"show": inspectFolder, "redrive and drop": editFolder, "sweep": repairFolder} {
		_, err := open(t.Context(), dir, config.Default())
		if err == nil || codeOf(err) != exitUsage || !strings.Contains(err.Error(), "is not a data folder") {
			t.Errorf("%s: exit %d, %v", name, codeOf(err), err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("%s wrote %v, %v", name, names, err)
		}
	}
}

// TestAFolderWithOneFileOfADatabaseIsADamagedDataFolder removes all other files of a database.
func TestAFolderWithOneFileOfADatabaseIsADamagedDataFolder(t *testing.T) {
	whole := t.TempDir()
	s, err := embedded.Open(embedded.Options{DataDir: whole})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(whole, "db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		dir, name := t.TempDir(), filepath.Join("db", f.Name())
		content, err := os.ReadFile(filepath.Join(whole, name))
		if err = errors.Join(err, os.Mkdir(filepath.Join(dir, "db"), 0o700), os.WriteFile(filepath.Join(dir, name), content, 0o600)); err != nil {
			t.Fatal(err)
		}
		want := "restore the data folder from a backup"
		if f.Name() == "LOCK" || strings.HasPrefix(f.Name(), "OPTIONS-") {
			want = "is not a data folder"
		}
		if _, err := inspectFolder(t.Context(), dir, config.Default()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s only: %v", name, err)
		}
	}
	if len(files) < 5 {
		t.Errorf("%d files: %v", len(files), files)
	}
}

func TestADestinationThatCanNotBeOpenedIsAnErrorOfTheStartAndOfASweep(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Parse("once.yaml", []byte("streams:\n  orders: {destinations: [out]}\ndestinations:\n  out: {file: "+dir+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o := embedded.Options{Config: c, DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)}
	if _, err := openServer(o); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("start: %v", err)
	}
	if _, err := repairFolder(t.Context(), o.DataDir, c); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("sweep: %v", err)
	}
}

func TestTheBuiltInConfigurationWritesToTheDataFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	cmd := (&app{}).dev()
	if err := cmd.Flags().Set("data", "other"); err != nil {
		t.Fatal(err)
	}
	c, err := load(cmd, defaultConfig)
	if want := filepath.Join("other", "messages.jsonl"); err != nil || c.Destinations["file"].File != want {
		t.Errorf("%+v, %v, want %s", c.Destinations, err, want)
	}
}

// folderWith makes a data folder with one message that no server has processed yet.
func folderWith(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	c := config.Default()
	c.Destinations["file"] = config.Destination{File: filepath.Join(dir, "messages.jsonl")}
	s, err := openServer(embedded.Options{Config: c, DataDir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/streams/messages/messages", strings.NewReader("1"))
	r.Header.Set("Idempotency-Key", `"m-1"`)
	w := httptest.NewRecorder()
	s.(*embeddedServer).Handler().ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents describes every file of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = info.Mode().String()
		if d.Name() != "LOCK" { // empty, and opened by each process
			out[path] += " " + info.ModTime().String()
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[path] += fmt.Sprintf(" %d %x", len(data), sha256.Sum256(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// onFolders returns the command line on real folders.
func onFolders() (a *app, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return &app{
		in: strings.NewReader(""), out: out, err: errs, env: func(string) string { return "" },
		openServer: openServer, inspectFolder: inspectFolder, editFolder: editFolder, repairFolder: repairFolder,
	}, out, errs
}

func TestShowLeavesEveryFileOfADataFolderAsItIs(t *testing.T) {
	dir := folderWith(t)
	t.Chdir(t.TempDir())
	before := contents(t, dir)
	hash := (&record.Message{Stream: "messages", ID: "m-1"}).Hash()
	for args, want := range map[string]string{
		"": "ingress.fifo  1", "messages": "", "messages --id m-1": "queue ingress.fifo", "--hash " + hash: "queue ingress.fifo", "--dead-letters": "no dead letters",
	} {
		a, out, errs := onFolders()
		if code := a.run(t.Context(), append(append([]string{"show"}, strings.Fields(args)...), "--data", dir)); code != exitOK || !strings.Contains(out.String(), want) {
			t.Errorf("show %s: exit %d: %s%s", args, code, out, errs)
		}
		if d := cmp.Diff(before, contents(t, dir)); d != "" {
			t.Fatalf("show %s changed the folder (-before +after):\n%s", args, d)
		}
	}
}

func TestShowListsNoStreamOfAnotherProgramAndNoRowWithoutAName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := embedded.Open(embedded.Options{Config: &config.Config{}, DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(_ context.Context, a *record.Attempt, _ record.Message) error { a.State = []byte(`1`); return nil }
	engine, err := s.Start([]system.Stream{{Stream: record.Stream{Name: "stock", Handler: handle}}})
	if err != nil {
		t.Fatal(err)
	}
	if o := engine.Call(t.Context(), record.Message{Stream: "stock", ID: "s-1"}); o.Kind != record.Processed {
		t.Fatalf("%+v", o)
	}
	claim := record.Token{Key: record.NewTokenKey("", "", "charge-1"), State: record.Done, Expires: time.Now().Add(time.Hour)}
	if _, err := s.Tokens().SwapToken(t.Context(), record.Token{Key: claim.Key}, claim); err != nil {
		t.Fatal(err)
	}
	own, err := s.Stats(t.Context())
	if err != nil || len(own.Streams) != 1 || own.Streams[0].Stream != "stock" {
		t.Errorf("the program itself: %+v, %v", own.Streams, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	a, out, errs := onFolders()
	code := a.run(t.Context(), []string{"show", "--data", dir})
	head, _, _ := strings.Cut(out.String(), "\n\n")
	var names []string
	for line := range strings.Lines(head) {
		names = append(names, strings.Fields(line)[0])
	}
	if d := cmp.Diff([]string{"STREAM", "stock", "(decorators)"}, names); code != exitOK || d != "" {
		t.Errorf("exit %d: %s%s\n%s", code, out, errs, d)
	}
}

func TestNotFoundSaysWhyAndHasItsOwnExitCode(t *testing.T) {
	dir := folderWith(t)
	config := filepath.Join(t.TempDir(), "once.yaml")
	if err := os.WriteFile(config, []byte("streams:\n  messages: {order: none, destinations: [file]}\ndestinations:\n  file: {file: out.jsonl}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"messages/first":   "once: group messages/first: not found: stream messages keeps no groups, because it has neither order nor state; look at a message of it with --id\n",
		"messages --id m2": "once: message m2 of stream messages: not found\n",
		"nowhere":          "once: stream nowhere: not found\n",
		"nowhere/g":        "once: stream nowhere: not found\n",
		"nowhere --id m":   "once: stream nowhere: not found\n",
	} {
		a, _, errs := onFolders()
		code := a.run(t.Context(), append(append([]string{"show"}, strings.Fields(args)...), "--data", dir, "--config", config))
		if code != exitUnknown || errs.String() != want {
			t.Errorf("show %s: exit %d: %s", args, code, errs)
		}
	}
	a, out, errs := onFolders()
	code := a.run(t.Context(), []string{"show", "messages/m-1", "--data", dir, "--config", config})
	if code != exitOK || !strings.Contains(errs.String(), "keeps no groups") || !strings.Contains(out.String(), "message    m-1\n") {
		t.Errorf("the group of one message: exit %d: %s%s", code, out, errs)
	}
	a, out, errs = onFolders()
	if code := a.run(t.Context(), []string{"show", "messages", "--data", dir, "--config", config}); code != exitOK || !strings.Contains(out.String(), "once show messages --id ID --config="+config+" --data="+dir) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
