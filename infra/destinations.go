package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/aws/permission"
)

// arnIn returns the ARN of a resource in the stack of scope.
func arnIn(scope constructs.Construct, r permission.Resource) *string {
	if r.ARN != "" {
		return jsii.String(r.ARN)
	}
	parts := &awscdk.ArnComponents{Service: jsii.String(r.Service), Resource: jsii.String(r.Name), ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME}
	if r.Account != "" {
		parts.Region, parts.Account = jsii.String(r.Region), jsii.String(r.Account)
	}
	return awscdk.Stack_Of(scope).FormatArn(parts)
}

// grant grants exactly these permissions.
func grant(scope constructs.Construct, permissions []permission.Permission, grantee awsiam.IGrantable) {
	for _, p := range permissions {
		allow(grantee, arnIn(scope, p.Resource), p.Action)
	}
}
