import * as iam from 'aws-cdk-lib/aws-iam';

/** All roles of a pipeline as one principal: what it is granted, each role is granted. */
export class Roles extends iam.PrincipalBase {
  public constructor(private readonly roles: iam.IRole[]) {
    super();
  }

  public get policyFragment(): iam.PrincipalPolicyFragment {
    return new iam.PrincipalPolicyFragment({ AWS: this.roles.map((role) => role.roleArn) });
  }

  public addToPrincipalPolicy(statement: iam.PolicyStatement): iam.AddToPrincipalPolicyResult {
    const results = this.roles.map((role) => role.addToPrincipalPolicy(statement.copy()));
    return { statementAdded: results.every((result) => result.statementAdded), policyDependable: results[0].policyDependable };
  }

  public dedupeString(): undefined {
    return undefined;
  }
}
