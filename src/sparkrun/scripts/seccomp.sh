# The system calls that a container may make: what Docker allows by default (docs.docker.com/engine/security/seccomp), plus io_uring,
# which newer versions of Docker took away and which fast readers of model files use.

# Always allowed. A name that a kernel does not know is passed over.
SYSCALLS_ALWAYS=(
  # files and folders
  {,f,l}chown{,32} {,f}chmod fchmodat{,2} fchownat {,f}chdir access faccessat{,2} creat open{,at,at2} close{,_range} link{,at} symlink{,at}
  unlink{,at} rename{,at,at2} mkdir{,at} rmdir mknod{,at} readlink{,at} getcwd umask {,f,l}stat{,64} fstatat64 newfstatat statx {,f}statfs{,64}
  {,f}truncate{,64} fallocate fadvise64{,_64} readahead {,f,l}{get,set,list,remove}xattr {get,set,list,remove}xattrat utime{,s,nsat,nsat_time64}
  futimesat getdents{,64} flock fcntl{,64} name_to_handle_at sync{,fs,_file_range} fsync fdatasync inotify_{add_watch,init,init1,rm_watch}
  fanotify_mark copy_file_range cachestat ioctl dup{,2,3} pipe{,2} sendfile{,64} splice tee vmsplice lseek _llseek
  # reading, writing, waiting
  read{,v} write{,v} pread{64,v,v2} pwrite{64,v,v2} io_{cancel,destroy,getevents,pgetevents,pgetevents_time64,setup,submit}
  io_uring_{enter,register,setup} {,p}poll ppoll_time64 select _newselect pselect6{,_time64}
  epoll_{create,create1,ctl,ctl_old,pwait,pwait2,wait,wait_old} eventfd{,2} signalfd{,4}
  # sockets and messages
  accept{,4} bind connect listen getpeername getsock{name,opt} setsockopt recv{,from,mmsg,mmsg_time64,msg} send{,mmsg,msg,to} shutdown
  socket{call,pair} ipc msg{ctl,get,rcv,snd} sem{ctl,get,op,timedop,timedop_time64} shm{at,ctl,dt,get}
  mq_{getsetattr,notify,open,timedreceive,timedreceive_time64,timedsend,timedsend_time64,unlink}
  # memory
  brk m{,un}map mmap2 mprotect mremap msync mincore madvise m{,un}lock{,all} mlock2 memfd_{create,secret} membarrier mseal map_shadow_stack
  pkey_{alloc,free,mprotect} remap_file_pages process_mrelease
  # processes, threads, signals
  execve{,at} exit{,_group} fork vfork wait{4,id,pid} kill t{,g}kill pause prctl rseq restart_syscall seccomp
  landlock_{add_rule,create_ruleset,restrict_self} pidfd_{open,send_signal} futex{,_time64,_waitv,_wait,_wake,_requeue} {get,set}_robust_list
  {get,set}_thread_area set_tid_address sigaltstack sigprocmask sigreturn
  rt_sig{action,pending,procmask,queueinfo,return,suspend,timedwait,timedwait_time64} rt_tgsigqueueinfo
  sched_{getaffinity,getattr,getparam,get_priority_max,get_priority_min,getscheduler,rr_get_interval,rr_get_interval_time64}
  sched_{setaffinity,setattr,setparam,setscheduler,yield} ioprio_{get,set} {get,set}priority {get,set}rlimit ugetrlimit prlimit64 getrusage
  # who and when
  get{,e}{u,g}id{,32} getp{gid,grp,id,pid} getsid gettid getcpu getrandom {get,set}groups{,32} {get,set}res{u,g}id{,32} set{,fs,re}{u,g}id{,32}
  setpgid setsid cap{get,set} uname sysinfo times time gettimeofday {get,set}itimer alarm adjtimex clock_adjtime{,64}
  clock_get{res,time,time64,res_time64} {,clock_}nanosleep clock_nanosleep_time64 timer_{create,delete,getoverrun,gettime,gettime64,settime,settime64}
  timerfd_{create,gettime,gettime64,settime,settime64}
)

# Allowed to those who have a capability: CAPABILITY:CALL,CALL.
# shellcheck disable=SC2054
SYSCALLS_BY_CAPABILITY=(
  SYS_ADMIN:bpf,clone,clone3,fanotify_init,fsconfig,fsmount,fsopen,fspick,lookup_dcookie,mount,mount_setattr,move_mount,open_tree
  SYS_ADMIN:perf_event_open,quotactl,quotactl_fd,setdomainname,sethostname,setns,syslog,umount,umount2,unshare
  DAC_READ_SEARCH:open_by_handle_at SYS_BOOT:reboot SYS_CHROOT:chroot SYS_MODULE:delete_module,init_module,finit_module SYS_PACCT:acct
  SYS_PTRACE:kcmp,pidfd_getfd,process_madvise,process_vm_readv,process_vm_writev,ptrace SYS_RAWIO:iopl,ioperm
  SYS_TIME:settimeofday,stime,clock_settime,clock_settime64 SYS_TTY_CONFIG:vhangup SYSLOG:syslog BPF:bpf PERFMON:perf_event_open
  SYS_NICE:get_mempolicy,mbind,set_mempolicy,set_mempolicy_home_node
)

# The profile as JSON, in REPLY.
seccomp_profile() {
  local rule rules
  local names=("${SYSCALLS_ALWAYS[@]}")
  allow_rule rules
  names=(process_vm_readv process_vm_writev ptrace)
  allow_rule rule ',"includes":{"minKernel":"4.8"}'
  rules+=,$rule
  # Every socket but AF_VSOCK, which reaches out of the container.
  names=(socket)
  allow_rule rule "$(if_argument 0 40 NE)"
  rules+=,$rule
  for REPLY in 0 8 131072 131080 4294967295; do
    names=(personality)
    allow_rule rule "$(if_argument 0 "$REPLY" EQ)"
    rules+=,$rule
  done
  names=(arm_fadvise64_64 arm_sync_file_range sync_file_range2 breakpoint cacheflush set_tls)
  allow_rule rule ',"includes":{"arches":["arm","arm64"]}'
  rules+=,$rule
  names=(arch_prctl modify_ldt)
  allow_rule rule ',"includes":{"arches":["amd64","x32"]}'
  rules+=,$rule
  allow_by_capability
  # Threads, but no new namespaces. clone3 hides its flags from the filter: "not implemented" (38) makes the C library use clone.
  names=(clone)
  allow_rule rule "$(if_argument 0 2114060288 MASKED_EQ),\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}"
  rules+=,$rule
  rules+=',{"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38,"excludes":{"caps":["CAP_SYS_ADMIN"]}}'
  REPLY='{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1,"archMap":['
  REPLY+='{"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86","SCMP_ARCH_X32"]},'
  REPLY+='{"architecture":"SCMP_ARCH_AARCH64","subArchitectures":["SCMP_ARCH_ARM"]}],'
  REPLY+="\"syscalls\":[$rules]}"
}

allow_by_capability() {
  local entry
  for entry in "${SYSCALLS_BY_CAPABILITY[@]}"; do
    IFS=, read -r -a names <<<"${entry#*:}"
    allow_rule rule ",\"includes\":{\"caps\":[\"CAP_${entry%%:*}\"]}"
    rules+=,$rule
  done
}

# VARIABLE [MORE]: the rule that allows the caller's names, under the conditions of MORE.
allow_rule() {
  local list
  printf -v list '"%s",' "${names[@]}"
  printf -v "$1" '{"names":[%s],"action":"SCMP_ACT_ALLOW"%s}' "${list%,}" "${2:-}"
}

# INDEX VALUE HOW: a condition on an argument of the call.
if_argument() {
  printf ',"args":[{"index":%s,"value":%s,"op":"SCMP_CMP_%s"}]' "$@"
}
