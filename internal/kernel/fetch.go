// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"

	kernelconfigs "patchcheck/kernel-configs"
)

// FetchExpr asks for the fetch argument (kernel Documentation/trace/
// fprobetrace.rst) that reads a struct member of a probe's argument.
type FetchExpr struct {
	Object string `json:"object"` // "net/sunrpc/xprtrdma/svc_rdma_sendto.o": an object that knows the struct
	Struct string `json:"struct"` // "struct svc_rdma_send_ctxt": what the argument points to
	Expr   string `json:"expr"`   // "sc_rdma->sc_max_inline_data", "sc_send_wr.sg_list->length:x32"
	Arg    int    `json:"arg"`    // 1-based number of the probe's argument
}

func (e FetchExpr) String() string {
	return fmt.Sprintf("(%s *)$arg%d ->%s in %s", e.Struct, e.Arg, e.Expr, e.Object)
}

// NoMemberError is a struct or member that the kernel does not have, as on a
// base kernel when the series adds it.
type NoMemberError struct {
	Expr   FetchExpr
	Struct string // that lacks it
	Member string // "" when the struct itself is missing
}

func (e *NoMemberError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("%s does not know %s", e.Expr.Object, e.Struct)
	}
	return fmt.Sprintf("%s has no member %s (%s)", e.Struct, e.Member, e.Expr.Object)
}

// Fetch resolves expressions for a kernel of the store. Answers that are kept
// with the kernel need no workspace. The result has one entry per expression:
// a fetch argument such as "+568(+16($arg1)):u32", or an error, which is a
// *NoMemberError when the kernel has no such member.
func (s *Store) Fetch(ctx context.Context, r Request, k *Kernel, exprs []FetchExpr) ([]FetchResult, error) {
	return nil, errors.New("not implemented yet")
}

// FetchResult is the answer to one FetchExpr.
type FetchResult struct {
	Expr  FetchExpr
	Fetch string
	Err   error
}

func (s *Store) fetchIn(ctx context.Context, w *Workspace, tc *Toolchain, r *Request, k *Kernel, exprs []FetchExpr) ([]FetchResult, error) {
	return nil, nil
}

func isConfigFault(err error) bool {
	var m *kernelconfigs.MissingError
	return errors.As(err, &m)
}
