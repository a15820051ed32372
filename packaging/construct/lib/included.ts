import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { CfnResource } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as cfninc from 'aws-cdk-lib/cloudformation-include';
import { Construct } from 'constructs';

/** The part of a template's metadata that the Go app writes for this package. */
export interface Described {
  /** Logical ids of resources by their names, such as Ingest or DeadQueue. */
  readonly resources: { [name: string]: string };
  /** The configuration that the template is made for, or an empty text. */
  readonly config: string;
  /** The actions with which the functions use a key. */
  readonly keyActions: string[];
  /** The actions with which Lambda attaches a function to a network. */
  readonly networkActions: string[];
}

/** A template as the Go app makes it. */
export interface Template {
  readonly Metadata?: { once?: Described };
  readonly Parameters?: { [name: string]: { Type: string; Default: string } };
  readonly Resources: { [id: string]: { Properties?: { [name: string]: any } } };
  readonly Outputs: { [name: string]: { Value: unknown } };
}

/** Reads a template, and refuses one that is not made for this package. */
export function readTemplate(file: string): Template & { readonly described: Described } {
  let template: Template;
  try {
    template = JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Error(`template ${file}: ${(error as Error).message}`);
  }
  const described = template.Metadata?.once;
  if (!described) {
    throw new Error(`template ${file}: is not made for this construct; make it with: make included CONFIG=once.yaml`);
  }
  return { ...template, described };
}

/** The resources of a template in the scope of a construct. */
export class Included {
  public readonly described: Described;
  private readonly include: cfninc.CfnInclude;
  private readonly resources: Template['Resources'];
  private readonly outputs: string[];

  /** Includes a template. Its parameters get these values, or their defaults. */
  public constructor(scope: Construct, template: ReturnType<typeof readTemplate>, values: { [parameter: string]: unknown }) {
    this.described = template.described;
    this.resources = template.Resources;
    // REST APIs have one of their own in addition.
    const outputs = Object.fromEntries(Object.entries(template.Outputs).filter(([name]) => !name.startsWith('Pipeline')));
    this.outputs = Object.keys(outputs);
    const parameters: { [name: string]: unknown } = {};
    for (const [name, parameter] of Object.entries(template.Parameters ?? {})) {
      parameters[name] = values[name] ?? (parameter.Type === 'String' ? parameter.Default : parameter.Default.split(','));
    }
    // The sections of the whole template, such as its description, are those of the app's stack.
    const sections = { Parameters: template.Parameters, Resources: template.Resources, Outputs: outputs };
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'once-template-'));
    try {
      const templateFile = path.join(folder, 'template.json');
      fs.writeFileSync(templateFile, JSON.stringify(sections));
      this.include = new cfninc.CfnInclude(scope, 'Template', { templateFile, preserveLogicalIds: false, parameters });
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  }

  /** Returns a resource by the name that the Go app gives it. */
  public one<T extends CfnResource>(name: string): T {
    return this.include.getResource(this.described.resources[name]) as T;
  }

  /** Returns whether there is a resource with this name. */
  public has(name: string): boolean {
    return name in this.described.resources;
  }

  /** Returns all resources of a type. */
  public all<T extends CfnResource>(type: new (...args: never[]) => T): T[] {
    return Object.keys(this.resources).map((id) => this.include.getResource(id)).filter((resource): resource is T => resource instanceof type);
  }

  /** Returns the resource of a type whose logical id in the template begins with a text. */
  public find<T extends CfnResource>(begin: string): T | undefined {
    const id = Object.keys(this.resources).find((candidate) => candidate.startsWith(begin));
    return id === undefined ? undefined : (this.include.getResource(id) as T);
  }

  /** Returns the mappings that feed queues to functions, and whether the queue is first-in-first-out. */
  public mappings(): { mapping: lambda.CfnEventSourceMapping; fifo: boolean }[] {
    const ids = Object.keys(this.resources).filter((id) => this.include.getResource(id) instanceof lambda.CfnEventSourceMapping);
    return ids.map((id) => {
      const queue = this.resources[id].Properties?.EventSourceArn['Fn::GetAtt'][0];
      return { mapping: this.include.getResource(id) as lambda.CfnEventSourceMapping, fifo: this.resources[queue].Properties?.FifoQueue === true };
    });
  }

  /** Returns an output. */
  public output(name: string) {
    return this.include.getOutput(name);
  }

  /** Names the outputs of the stack, as the command line looks for them. */
  public nameOutputs(prefix: string): void {
    this.outputs.forEach((name) => this.output(name).overrideLogicalId(prefix + name));
  }

  /** Allows all functions to do something. The functions depend on these policies. */
  public allow(actions: string[], resource: string): void {
    for (const policy of this.all(iam.CfnPolicy)) {
      const document = policy.policyDocument;
      const statement = { Action: actions, Effect: 'Allow', Resource: resource };
      policy.policyDocument = { ...document, Statement: [...document.Statement, statement] };
    }
  }
}
