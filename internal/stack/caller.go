package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// A caller is whose credentials these are.
type caller struct {
	arn     string
	user    string // the unique id, as SQS names senders: ROLE-ID:SESSION for a role
	account string
}

func (s *Stack) caller(ctx context.Context) (caller, error) {
	out, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return caller{}, fmt.Errorf("ask who is calling: %w", Explain(err))
	}
	return caller{arn: aws.ToString(out.Arn), user: aws.ToString(out.UserId), account: aws.ToString(out.Account)}, nil
}

// Principal is the caller as the deployed API authenticates it by IAM.
func (s *Stack) Principal(ctx context.Context) (string, error) {
	c, err := s.caller(ctx)
	return c.principal(), err
}

// maxPrincipal is the length beyond which the API replaces a principal by its hash, in bytes.
const maxPrincipal = 200

// principal says what package apigw says of the same ARN; a test compares them.
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

// among tells whether receivers that trust these senders believe what the caller sends. Emulators name the account as the sender of everything.
func (c caller) among(trusted []string, emulated bool) bool {
	role, _, _ := strings.Cut(c.user, ":")
	return slices.Contains(trusted, c.user) || slices.Contains(trusted, role) || emulated && slices.Contains(trusted, c.account)
}

// emulated reports whether the queues are somebody else's than AWS's.
func (s *Stack) emulated() bool { return aws.ToString(s.sqs.Options().BaseEndpoint) != "" }
