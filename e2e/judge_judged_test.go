package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A judge that never finds anything proves nothing.

func TestTheJudgeOfLinesFindsEveryFault(t *testing.T) {
	want := []sent{
		{id: "a", group: "g", contentType: "application/json", body: []byte(`{"n": 1}`)},
		{id: "b", group: "g", contentType: "text/plain", body: []byte("two")},
		{source: "s", sequence: 1, contentType: "application/octet-stream", body: []byte{0xff}},
		{source: "s", sequence: 2, contentType: "text/plain", body: []byte("x")},
	}
	good := []string{
		`{"stream":"x","group":"g","number":1,"id":"a","content_type":"application/json","body":{"n":1}}`,
		`{"stream":"x","group":"g","number":2,"id":"b","content_type":"text/plain","body":"two"}`,
		`{"stream":"x","group":"s","number":1,"id":"s/0/1","source":"s","sequence":1,"content_type":"application/octet-stream","body_base64":"/w=="}`,
		`{"stream":"x","group":"s","number":2,"id":"s/0/2","source":"s","sequence":2,"content_type":"text/plain","body":"x"}`,
	}
	for _, c := range []struct {
		name, fault string
		lines       []string
	}{
		{"good", "", good},
		{"missing", "b is missing", []string{good[0], good[2], good[3]}},
		{"twice", "for the 2. time", append([]string{good[0]}, good...)},
		{"foreign", "nobody sent", append([]string{strings.Replace(good[0], `"id":"a"`, `"id":"q"`, 1)}, good...)},
		{"other body", "another body", append([]string{strings.Replace(good[0], `"n":1`, `"n":2`, 1)}, good[1:]...)},
		{"other group", "came out as", append([]string{strings.Replace(good[0], `"g"`, `"h"`, 1)}, good[1:]...)},
		{"numbers turned round", "after 2", []string{good[1], good[0], good[2], good[3]}},
		{"sequence turned round", "is next", []string{good[0], good[1], good[3], good[2]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.jsonl")
			must(t, os.WriteFile(path, []byte(strings.Join(c.lines, "\n")+"\n"), 0o600))
			lines, err := readLines(path)
			must(t, err)
			accuse(t, judgeLines("x", want, lines), c.fault)
		})
	}
}

func TestACutLineIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	for _, text := range []string{`{"stream":"x"}`, "{\"stream\":\"x\n", "{\"stream\":\"x\",\"extra\":1}\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := readLines(path); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestTheJudgeOfPostsFindsEveryFault(t *testing.T) {
	want := []sent{{id: "a", body: []byte("1")}, {id: "b", body: []byte("2")}}
	a := post{webhookID: "x/g/1", group: "g", number: 1, id: "a", body: []byte("1")}
	b := post{webhookID: "x/g/2", group: "g", number: 2, id: "b", body: []byte("2")}
	late, other, twice := b, a, a
	late.webhookID = "x/g/1"
	other.body = []byte("3")
	twice.webhookID, twice.number = "x/g/3", 3
	for _, c := range []struct {
		name, fault string
		posts       []post
	}{
		{"good", "", []post{a, a, b, a}},
		{"missing", "b is missing", []post{a}},
		{"foreign", "nobody sent", []post{a, b, {webhookID: "x", id: "q"}}},
		{"other body", "another body", []post{a, b, other}},
		{"one identity for two", "is both", []post{a, b, late}},
		{"two effects", "has two effects", []post{a, b, twice}},
		{"turned round", "first seen after", []post{b, a}},
	} {
		t.Run(c.name, func(t *testing.T) { accuse(t, judgePosts(want, c.posts), c.fault) })
	}
}

// accuse checks that a verdict names a fault, or none if fault is empty.
func accuse(t *testing.T, v *verdict, fault string) {
	t.Helper()
	text := strings.Join(v.problems, "\n")
	if fault == "" && text != "" || !strings.Contains(text, fault) {
		t.Errorf("want %q, got %q", fault, text)
	}
}
