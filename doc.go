// Package braise is the root of Braise, an engine for recipes: YAML files that describe steps of
// models and tools. [Load] reads and compiles one; the packages are, from the text to the outcome:
//
//   - recipe reads a recipe file into data with positions.
//   - workflow compiles a recipe to a graph and runs it.
//   - runtime says what a run may touch: models, tools, secrets, limits. To embed Braise, implement
//     two interfaces of it: Model and Tool.
//   - trace and diagnostics are what a run tells about itself.
//   - host makes a runtime of a braise.yaml, as the command does.
//
// docs/start/go.md is a tutorial, and docs/design.md follows a run through the packages.
package braise
