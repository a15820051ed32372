package infra

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

// anyConfig is the configuration of a template that is made for none: it has no sources, and needs
// no permissions.
const anyConfig = "streams: {any: {}}\n"

// Archives are packed functions in a bucket, as `make archives` builds them. Their names are those
// of the files, such as once-ingest-arm64.zip, after a prefix. All fields are required.
type Archives struct {
	Bucket awss3.IBucket
	// Prefix of the keys. It ends in a slash, or is empty.
	Prefix *string
	// Architecture is arm64 or x86_64.
	Architecture *string
	// Config is the text of once.yaml, with more than one line, or its path in the archives.
	Config *string
}

// code returns the archive of a function.
func (a *Archives) code(name string) awslambda.Code {
	key := awscdk.Fn_Join(jsii.String(""), &[]*string{a.Prefix, jsii.String("once-" + strings.ToLower(name) + "-"), a.Architecture, jsii.String(".zip")})
	return awslambda.Code_FromBucket(a.Bucket, key, nil)
}

// architecture returns the instruction set of the functions.
func (a *Archives) architecture() awslambda.Architecture {
	return awslambda.Architecture_Custom(a.Architecture, nil)
}

// checkFunctions returns an error if the template for the construct shall have functions: the
// construct sets them.
func (s *Settings) checkFunctions(given map[string]any) error {
	if !s.Construct {
		return nil
	}
	for _, name := range []string{"assets", "ingestFunction", "processFunction", "publishFunction"} {
		if given[name] != nil {
			return fmt.Errorf("context %s: the construct sets the functions of its template, by its prop functions", name)
		}
	}
	return nil
}
