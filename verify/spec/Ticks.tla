------------------------------- MODULE Ticks -------------------------------
(* One start per tick (R12, docs/guarantees.md): the claims of a job, in     *)
(* two rounds under the fencing token of the job's lock; the stores that     *)
(* replace a claim when its run has ended or never began; and nodes that     *)
(* forget (R6).                                                              *)
(*                                                                          *)
(* Source of the two rounds: L. Lamport, Paxos Made Simple (2001), 2.2. A    *)
(* claim that may have been chosen is not proposed again; its tick counts.   *)
(*                                                                          *)
(* A request arrives at any later time, in any order, or never. An attempt   *)
(* decides at any later time, and on any quorum of the answers.              *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Nodes,      \* the servers of the set
    Tokens,     \* 1..n: one attempt for each, by any replica
    MaxForgets, \* how many times a node may lose its data
    LeftOut     \* the guards that are not in force: see Guards

(* Each guard, without which an invariant is violated. *)
Guards == {
    "promise",   \* a node accepts no claim below what it promised
    "majority",  \* a run needs a claim that a quorum accepted
    "silent",    \* a claim counts if it may be stored by a quorum
    "number",    \* a node keeps the later store of a token
    "learn"}     \* R6: a node that forgot learns promises and claims

ASSUME MaxForgets \in Nat /\ LeftOut \subseteq Guards

Has(guard) == guard \notin LeftOut
Quorums == {Q \in SUBSET Nodes : 2 * Cardinality(Q) > Cardinality(Nodes)}
Witnesses(n) ==
    {W \in SUBSET (Nodes \ {n}) : \A Q \in Quorums : W \cap Q # {}}
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
(* A claim: its token, the tick, the tick before it, and which store of the  *)
(* token it is: 0 for the claim, 1 for what replaces it.                     *)
NoClaim == [token |-> 0, tick |-> 0, before |-> 0, store |-> 0]
(* The claim with the greatest token, and of these its last store. *)
Greatest(claims) ==
    CHOOSE c \in claims : \A d \in claims :
        d.token < c.token \/ (d.token = c.token /\ d.store <= c.store)

VARIABLES
    promised, \* promised[n]: no claim with a smaller token is accepted
    claim,    \* claim[n]: the claim that the node stores
    votes,    \* votes[n]: whether the node votes
    late,     \* late[n]: what was asked before it forgot: tokens and claims
    void,     \* what no node runs any more
    forgets,  \* how many times a node lost its data
    asked,    \* tokens for which a node was asked to promise
    answers,  \* promises: token, node, and the claim stored then
    sent,     \* claims that were sent to all nodes
    accepted, \* <<claim, node>> for each store that its author awaits
    started   \* the claims whose runs were started

forgetting == <<votes, late, void, forgets>>
vars == <<promised, claim, forgetting, asked, answers, sent, accepted, started>>

Nothing == [tokens |-> {}, claims |-> {}]

Init ==
    /\ promised = [n \in Nodes |-> 0]
    /\ claim = [n \in Nodes |-> NoClaim]
    /\ votes = [n \in Nodes |-> TRUE]
    /\ late = [n \in Nodes |-> Nothing]
    /\ void = Nothing
    /\ forgets = 0
    /\ asked = {}
    /\ answers = {}
    /\ sent = {}
    /\ accepted = {}
    /\ started = {}

Claimed(t) == \E c \in sent : c.token = t
Answered(t, n) == \E a \in answers : a.token = t /\ a.node = n

(* An answer that comes after the claim is not read. *)
Promise(t, n) ==
    /\ votes[n] /\ t \notin void.tokens
    /\ promised[n] <= t
    /\ ~Answered(t, n)
    /\ promised' = [promised EXCEPT ![n] = t]
    /\ asked' = asked \cup {t}
    /\ answers' = IF Claimed(t) THEN answers
         ELSE answers \cup {[token |-> t, node |-> n, claim |-> claim[n]]}
    /\ UNCHANGED <<claim, forgetting, sent, accepted, started>>

(* The latest run by what the nodes Q promised to t: that of the claim with  *)
(* the greatest token, if a quorum stores that token or still may;           *)
(* otherwise the run that it names as the one before it.                     *)
Latest(t, Q, claims) ==
    LET last == Greatest(claims)
        silent == IF Has("silent") THEN Nodes \ Q ELSE {}
        storing == {n \in Q : \E a \in answers :
            a.token = t /\ a.node = n /\ a.claim.token = last.token}
    IN IF storing \cup silent \in Quorums THEN last.tick ELSE last.before

Claim(t) ==
    /\ ~Claimed(t)
    /\ \E Q \in Quorums :
         /\ \A n \in Q : Answered(t, n)
         /\ LET told == {a.claim : a \in {b \in answers : b.token = t /\ b.node \in Q}}
                latest == Latest(t, Q, told)
            IN sent' = sent \cup
                 {[token |-> t, tick |-> latest + 1, before |-> latest, store |-> 0]}
    /\ answers' = {a \in answers : a.token # t}
    /\ UNCHANGED <<promised, claim, forgetting, asked, accepted, started>>

IsReplaced(c) == \E d \in sent : d.token = c.token /\ d.store > c.store

Accept(c, n) ==
    /\ votes[n] /\ c \notin void.claims
    /\ promised[n] <= c.token \/ ~Has("promise")
    /\ ~(claim[n].token = c.token /\ claim[n].store > c.store) \/ ~Has("number")
    /\ promised' = [promised EXCEPT ![n] = Max({@, c.token})]
    /\ claim' = [claim EXCEPT ![n] = c]
    /\ accepted' = IF IsReplaced(c) THEN accepted ELSE accepted \cup {<<c, n>>}
    /\ UNCHANGED <<forgetting, asked, answers, sent, started>>

Accepting(c) == {n \in Nodes : <<c, n>> \in accepted}
Chosen(c) ==
    \/ Accepting(c) \in Quorums
    \/ ~Has("majority") /\ Accepting(c) # {}

(* What replaces a claim is sent once the claim was accepted by a quorum.    *)
Replace(c, by) ==
    /\ c.store = 0 /\ ~IsReplaced(c) /\ Chosen(c)
    /\ sent' = sent \cup {by}
    /\ accepted' = {a \in accepted : a[1] # c}
    /\ UNCHANGED <<promised, claim, forgetting, asked, answers>>

(* A run starts only when a quorum has accepted its claim. *)
StartRun(c) ==
    /\ Replace(c, [c EXCEPT !.store = 1])
    /\ started' = started \cup {c}

(* A claim under which nothing was started is taken back. *)
TakeBack(c) ==
    /\ Replace(c, [c EXCEPT !.store = 1, !.tick = c.before])
    /\ UNCHANGED started

(* R6: a node that lost its data does not vote ... *)
Forget(n) ==
    /\ forgets < MaxForgets /\ votes[n]
    /\ forgets' = forgets + 1
    /\ votes' = [votes EXCEPT ![n] = FALSE]
    /\ late' = [late EXCEPT ![n] = [tokens |-> asked, claims |-> sent]]
    /\ promised' = [promised EXCEPT ![n] = 0]
    /\ claim' = [claim EXCEPT ![n] = NoClaim]
    /\ UNCHANGED <<void, asked, answers, sent, accepted, started>>

(* ... until it has waited longer than the deadline of any request that was  *)
(* sent before, and has learnt the promises and the claim of so many others  *)
(* that each quorum has one of them.                                         *)
Activate(n) ==
    /\ ~votes[n]
    /\ \E W \in Witnesses(n) :
         /\ \A w \in W : votes[w]
         /\ promised' = [promised EXCEPT ![n] =
              IF Has("learn") THEN Max({promised[w] : w \in W}) ELSE 0]
         /\ claim' = [claim EXCEPT ![n] =
              IF Has("learn") THEN Greatest({claim[w] : w \in W}) ELSE NoClaim]
    /\ votes' = [votes EXCEPT ![n] = TRUE]
    /\ late' = [late EXCEPT ![n] = Nothing]
    /\ void' = [tokens |-> void.tokens \cup late[n].tokens,
                claims |-> void.claims \cup late[n].claims]
    /\ UNCHANGED <<forgets, asked, answers, sent, accepted, started>>

Next ==
    \/ \E t \in Tokens, n \in Nodes : Promise(t, n)
    \/ \E t \in Tokens : Claim(t)
    \/ \E c \in sent, n \in Nodes : Accept(c, n)
    \/ \E c \in sent : StartRun(c) \/ TakeBack(c)
    \/ \E n \in Nodes : Forget(n) \/ Activate(n)

Spec == Init /\ [][Next]_vars

OneStartPerTick ==
    \A c, d \in started : c # d => c.tick # d.tick

(* What a quorum stored in place of a claim is found by each later quorum,   *)
(* unless a later claim is.                                                  *)
NoEndIsLost ==
    \A c \in sent : c.store = 1 /\ Accepting(c) \in Quorums =>
        \A Q \in Quorums : (\A n \in Q : votes[n]) =>
            \E n \in Q : claim[n] = c \/ claim[n].token > c.token

(* Names are alike: TLC visits one of each group of states. *)
Symmetry == Permutations(Nodes)
=============================================================================
