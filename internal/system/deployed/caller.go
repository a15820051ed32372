package deployed

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/effectively-once/once/internal/front/apigw"
)

// Principal returns the caller's principal as the deployed API authenticates it by IAM.
func (s *Stack) Principal(ctx context.Context) (string, error) {
	out, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fmt.Errorf("ask who is calling: %w", explain(err))
	}
	return apigw.IAMPrincipal(aws.ToString(out.Arn)), nil
}
