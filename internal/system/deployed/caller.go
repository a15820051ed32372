package deployed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// A caller is the owner of the credentials.
type caller struct{ arn string }

func (s *Stack) caller(ctx context.Context) (caller, error) {
	out, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return caller{}, fmt.Errorf("ask who is calling: %w", explain(err))
	}
	return caller{arn: aws.ToString(out.Arn)}, nil
}

// Principal returns the caller's principal as the deployed API authenticates it by IAM.
func (s *Stack) Principal(ctx context.Context) (string, error) {
	c, err := s.caller(ctx)
	return c.principal(), err
}

// maxPrincipal is the length beyond which the API replaces a principal by its hash, in bytes.
const maxPrincipal = 200

// principal returns the principal that package apigw derives from the same ARN; a test compares
// them.
func (c caller) principal() string {
	p := "iam:" + c.arn
	if strings.Contains(p, ":assumed-role/") && strings.Count(p, "/") >= 2 {
		p = p[:strings.LastIndexByte(p, '/')] // another session is the same principal
	}
	if len(p) <= maxPrincipal {
		return p
	}
	sum := sha256.Sum256([]byte(p))
	return "iam:sha256:" + hex.EncodeToString(sum[:])
}
