package mistakes_test

import (
	"os"
	"testing"

	"github.com/effectively-once/once/prove/explore/mistakes"
)

// go -C prove run . -only explore shows that the code is right with each.
func TestEverySmallNumberIsStillInTheSource(t *testing.T) {
	list, err := mistakes.LoadSmall(os.DirFS("../testdata"), "small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if err := s.Fits(root); err != nil {
			t.Error(err)
		}
	}
}
