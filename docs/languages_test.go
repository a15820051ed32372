package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// program is a link to an example and the block of code below it.
var program = regexp.MustCompile("(?ms)^\\[[^\\]]*\\]\\(\\.\\./(examples/languages/[^)]*)\\):\n\n```[a-z]+\n(.*?)^```$")

// linked is a link to an example.
var linked = regexp.MustCompile(`\]\(\.\./(examples/languages/[^)]*)\)`)

func TestTheProgramsOnAPageAreThoseOfTheExamples(t *testing.T) {
	shown := map[string]bool{} // or linked
	for path, page := range pages(t) {
		for _, m := range linked.FindAllStringSubmatch(page, -1) {
			shown[m[1]] = true
		}
		for _, m := range program.FindAllStringSubmatch(page, -1) {
			if m[2] != read(t, "../"+m[1]) {
				t.Errorf("%s does not show %s as it is", path, m[1])
			}
		}
	}
	for _, pattern := range []string{"*.py", "*.ts", "*.java", "*.sh"} {
		files, err := filepath.Glob("../examples/languages/*/" + pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("examples/languages has no %s (%v)", pattern, err)
		}
		for _, file := range files {
			if name := strings.TrimPrefix(filepath.ToSlash(file), "../"); !shown[name] {
				t.Errorf("no page shows or names %s", name)
			}
		}
	}
}
