package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const template = `{"Type": "AWS::Lambda::Function", "Properties": {
	"Timeout": 15,
	"Role": {"Fn::GetAtt": ["Role", "Arn"]},
	"Tags": [{"Key": "a", "Value": "b"}],
	"Environment": {"Variables": {"TABLE": {"Ref": "Table"}, "LEVEL": "debug"}},
	"Source": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":queue:", {"Ref": "Queue"}]]},
	"Responses": ["first", "second"],
	"Keys": [{"Name": "pk", "Kind": "HASH"}],
	"Protected": false
}}`

// there is a description of which everything is preserved.
const there = `{
	"Timeout": 15, "Role": "arn:aws:iam::1:role/role-7", "Environment": {"Variables": {"TABLE": "table-1", "LEVEL": "debug", "MORE": "x"}},
	"Source": "arn:aws:queue:jobs.fifo", "Responses": ["second", "first"], "Keys": [{"Name": "sk"}, {"Name": "pk", "Kind": "HASH"}], "Protected": null
}`

func compareWith(t *testing.T, description string) report {
	t.Helper()
	var wants resource
	var properties map[string]any
	if err := decode([]byte(template), &wants); err != nil {
		t.Fatal(err)
	}
	if err := decode([]byte(description), &properties); err != nil {
		t.Fatal(err)
	}
	names := physical{"Role": "role-7", "Table": "table-1", "Queue": "http://localhost:4566/queue/jobs.fifo"}
	return names.compare("Fn", wants, properties)
}

func TestAResourceAsRequestedHasNoDifference(t *testing.T) {
	r := compareWith(t, there)
	if len(r.dropped) != 0 || r.kept != 10 {
		t.Errorf("kept %d, dropped %v", r.kept, r.dropped)
	}
	if d := cmp.Diff([]string{"AWS::Lambda::Function Tags"}, r.blind); d != "" {
		t.Errorf("what the description does not have:\n%s", d)
	}
}

func TestEveryDroppedOrChangedPropertyIsNamed(t *testing.T) {
	for _, c := range []struct{ old, new, path string }{
		{`"Timeout": 15`, `"Timeout": 3`, "Timeout"},
		{`"Timeout": 15`, `"Timeout": null`, "Timeout"},
		{`"Timeout": 15`, `"Timeout": 150`, "Timeout"},
		{"role/role-7", "role/role-8", "Role"},
		{`"TABLE": "table-1", `, "", "Environment.Variables.TABLE"},
		{"debug", "info", "Environment.Variables.LEVEL"},
		{"jobs.fifo", "others.fifo", "Source"},
		{`["second", "first"]`, `["first"]`, "Responses.*"},
		{`"Kind": "HASH"`, `"Kind": "RANGE"`, "Keys.*.Kind"},
		{`"Protected": null`, `"Protected": true`, "Protected"},
	} {
		r := compareWith(t, strings.Replace(there, c.old, c.new, 1))
		var paths []string
		for _, d := range r.dropped {
			paths = append(paths, d.path)
		}
		if d := cmp.Diff([]string{c.path}, paths); d != "" {
			t.Errorf("with %s:\n%s", c.new, d)
		}
	}
}

func TestOnlyUnexpectedDifferencesFail(t *testing.T) {
	list := filepath.Join(t.TempDir(), "expected.txt")
	if err := os.WriteFile(list, []byte("# a list\n\nAWS::Lambda::Function  Timeout # it runs as long as it likes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := readExpected(list)
	if err != nil {
		t.Fatal(err)
	}
	r := report{expected: known}
	r.add(compareWith(t, strings.Replace(there, `"Timeout": 15`, `"Timeout": 3`, 1)))
	if err := r.print(io.Discard); err != nil {
		t.Errorf("an expected difference: %v", err)
	}
	r.dropped = append(r.dropped, difference{"AWS::CloudWatch::Dashboard", "", "Dashboard"})
	if err := r.print(io.Discard); err == nil {
		t.Error("a missing resource that nobody expects is no error")
	}
}

func TestAnExpectedPropertyCoversItsParts(t *testing.T) {
	r := report{expected: map[string]string{"AWS::S3::Bucket Rules": "dropped", "AWS::SQS::Queue": "can't be made"}}
	for d, want := range map[difference]bool{
		{"AWS::S3::Bucket", "Rules", ""}:             true,
		{"AWS::S3::Bucket", "Rules.*.Prefix", ""}:    true,
		{"AWS::S3::Bucket", "RulesOfOthers", ""}:     false,
		{"AWS::S3::Bucket", "", ""}:                  false,
		{"AWS::SQS::Queue", "", ""}:                  true,
		{"AWS::SQS::Queue", "VisibilityTimeout", ""}: false,
	} {
		if _, got := r.expects(d); got != want {
			t.Errorf("%s: %t", d.rule(), got)
		}
	}
}

func TestAListOfExpectedDifferencesGivesReasons(t *testing.T) {
	list := filepath.Join(t.TempDir(), "expected.txt")
	if err := os.WriteFile(list, []byte("AWS::Lambda::Function Timeout\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readExpected(list); err == nil {
		t.Error("a difference without a reason is taken")
	}
}

func TestAnAppWithoutComparedResourcesFails(t *testing.T) {
	if err := new(report).print(io.Discard); err == nil {
		t.Error("nothing compared is no error")
	}
}
