// Package braise is the root of Braise, an engine for recipes: YAML files that describe steps of
// models and tools. [Load] reads and compiles one; the packages are, from the text to the outcome:
//
//   - recipe reads a recipe file into data with positions.
//   - workflow compiles a recipe to a graph and runs it.
//   - runtime says what a run may touch: models, tools, secrets, limits. Who embeds Braise
//     implements its two ports, Model and Tool.
//   - trace and diagnostics are what a run tells about itself.
//   - host makes a runtime of a braise.yaml, as the command does.
//
// The engine itself is internal/engine, a run as the pure fold of its events, over internal/machine, the order of its
// steps. internal/execution begins and resumes a run, internal/local drives it in this process, and internal/call makes
// its calls. docs/design.md follows a run through all of them.
//
// Imports go one way only. The floor plan stands in house_test.go, and a test holds every package
// to it.
package braise
