// Lists what the packages of controller-runtime export that authors of operators use, one
// identifier on a line: types with their fields and methods, functions, variables, constants.
//
// docs/coming-from.md has a row for each. `cargo xtask identifiers` runs this program, in the
// module that pins the version of controller-runtime for the benchmarks.
package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"log"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const module = "sigs.k8s.io/controller-runtime"

// The empty name is the package ctrl.
var packages = []string{
	"", "pkg/builder", "pkg/cache", "pkg/cache/cacheapi", "pkg/client", "pkg/client/fake",
	"pkg/client/interceptor", "pkg/cluster", "pkg/config", "pkg/controller",
	"pkg/controller/controllerutil", "pkg/event", "pkg/finalizer", "pkg/handler", "pkg/manager",
	"pkg/predicate", "pkg/reconcile", "pkg/recorder", "pkg/source",
}

func main() {
	var all []string
	for _, name := range packages {
		found, err := build.Import(path.Join(module, name), ".", 0)
		if err != nil {
			log.Fatal(err)
		}
		listed := lister{prefix: path.Base(name)}
		if name == "" {
			listed.prefix = "ctrl"
		}
		for _, file := range found.GoFiles {
			syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(found.Dir, file), nil, 0)
			if err != nil {
				log.Fatal(err)
			}
			for _, decl := range syntax.Decls {
				listed.decl(decl)
			}
		}
		all = append(all, listed.qualified()...)
	}
	slices.Sort(all)
	for _, line := range slices.Compact(all) {
		fmt.Println(line)
	}
}

// lister collects the identifiers of one package, without its name.
type lister struct {
	prefix string
	names  []string
	// aliases has X for each TypedX, where X is TypedX for requests or for objects.
	aliases map[string]string
}

func (l *lister) decl(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			l.add(decl.Name.Name)
		} else {
			l.add(receiver(decl.Recv.List[0].Type), decl.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				l.typed(spec)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					l.add(name.Name)
				}
			}
		}
	}
}

func (l *lister) typed(spec *ast.TypeSpec) {
	name := spec.Name.Name
	l.add(name)
	if of := receiver(spec.Type); spec.Assign.IsValid() && of == "Typed"+name {
		if l.aliases == nil {
			l.aliases = map[string]string{}
		}
		l.aliases[of] = name
	}
	var members *ast.FieldList
	switch body := spec.Type.(type) {
	case *ast.StructType:
		members = body.Fields
	case *ast.InterfaceType:
		members = body.Methods
	default:
		return
	}
	for _, member := range members.List {
		for _, field := range member.Names {
			l.add(name, field.Name)
		}
	}
}

// add takes an identifier, unless a part of it is not exported. Methods like ApplyToList are how an
// option takes effect; nobody calls them.
func (l *lister) add(parts ...string) {
	for _, part := range parts {
		if !ast.IsExported(part) {
			return
		}
	}
	if last := parts[len(parts)-1]; len(parts) > 1 &&
		(strings.HasPrefix(last, "ApplyTo") || last == "ApplyOptions") {
		return
	}
	l.names = append(l.names, strings.Join(parts, "."))
}

// qualified shows members of a generic type as those of its alias, which is what people write.
func (l *lister) qualified() []string {
	var lines []string
	for _, name := range l.names {
		of, member, isMember := strings.Cut(name, ".")
		if alias, found := l.aliases[of]; found && isMember {
			name = alias + "." + member
		}
		lines = append(lines, l.prefix+"."+name)
	}
	return lines
}

// receiver is the name of a type, without its pointer and its parameters.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
