package dynamostore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// This test keeps docs/schema.md complete.
func TestThePageOfTheSchemaNamesEveryAttribute(t *testing.T) {
	source, err := os.ReadFile("attributes.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/schema.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tattr\w+ += "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(found) < 20 {
		t.Fatalf("found %d attributes", len(found))
	}
	for _, m := range found {
		if !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("the page does not name %s", m[1])
		}
	}
	if format := regexp.MustCompile(`(?m)^\tformat = (\d+)$`).FindSubmatch(source); format == nil || !strings.Contains(string(page), "its format: **"+string(format[1])+"**") {
		t.Errorf("the page has another format than %s", format)
	}
}
